#include "worker/trainer/progress_sink.h"

#include <string>

#include "program/passes/expand.h"
#include "worker/shared/progress_layout.h"

namespace strata::worker {

static_assert(program::kStreamCount <= kProgressStreams);

FileProgressSink::FileProgressSink(const program::ProgramSet& set, ProgressWriter* writer)
    : writer_(writer) {
  std::vector<std::vector<std::string>> labels;
  for (const program::Program& program : set.programs) {
    std::vector<std::string>& names = labels.emplace_back();
    for (const program::Instruction& instruction : program.instructions) {
      names.push_back(instruction.label);
    }
    std::vector<int32_t>& instructions = instruction_of_.emplace_back();
    for (const program::Action& action : program::Expand(set, program).actions) {
      instructions.push_back(action.instruction);
    }
  }
  writer_->SetLabels(labels);
}

void FileProgressSink::Begin(program::Stream stream, int program, int action) {
  writer_->Begin(static_cast<int>(stream), program, instruction_of_[program][action]);
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
