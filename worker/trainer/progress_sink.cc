#include "worker/trainer/progress_sink.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "program/passes/expand.h"
#include "worker/shared/progress_layout.h"

namespace strata::worker {

static_assert(program::kStreamCount <= kProgressStreams);
static_assert(std::size(program::kGroups) <= kProgressGroups);

namespace {

bool WaitsForStorage(const program::Action& action, const program::Program& program) {
  if (action.op != nullptr) return action.op->kind == program::OpKind::kLoadBatch;
  const program::Instruction& instruction = program.instructions[action.instruction];
  return action.mechanism == program::Mechanism::kSignal &&
         instruction.purpose == program::Purpose::kSnapshot;
}

}  // namespace

FileProgressSink::FileProgressSink(const program::ProgramSet& set, ProgressWriter* writer)
    : writer_(writer) {
  std::vector<std::vector<std::string>> labels;
  for (const program::Program& program : set.programs) {
    std::vector<std::string>& names = labels.emplace_back();
    for (const program::Instruction& instruction : program.instructions) {
      names.push_back(instruction.label);
    }
    std::vector<Action>& actions = actions_.emplace_back();
    for (const program::Action& action : program::Expand(set, program).actions) {
      Action& added = actions.emplace_back();
      added.instruction = action.instruction;
      added.operation.storage = WaitsForStorage(action, program);
      if (!action.is_communication()) continue;
      added.operation.group =
          static_cast<int>(std::find(std::begin(program::kGroups), std::end(program::kGroups),
                                     action.communication.group) -
                           std::begin(program::kGroups));
      added.operation.pair = action.mechanism != program::Mechanism::kCollective;
    }
  }
  std::vector<std::string> groups;
  for (const program::Group group : program::kGroups) groups.push_back(program::Name(group));
  writer_->SetGroups(groups);
  writer_->SetLabels(labels);
}

void FileProgressSink::Begin(program::Stream stream, int program, int action) {
  const Action& at = actions_[program][action];
  writer_->Begin(static_cast<int>(stream), program, at.instruction, at.operation);
}

void FileProgressSink::End(program::Stream stream, int, int) {
  writer_->End(static_cast<int>(stream));
}

uint32_t FileProgressSink::LabelsOf(const program::ProgramSet& set) {
  size_t labels = 0;
  for (const program::Program& program : set.programs) labels += program.instructions.size();
  return static_cast<uint32_t>(labels);
}

}  // namespace strata::worker
