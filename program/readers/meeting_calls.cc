#include "program/readers/meeting_calls.h"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::program {
namespace {

using Streams = std::array<bool, kStreamCount>;

int AnyRankOf(const Mesh& mesh, int stage) {
  int rank = 0;
  while (mesh.stage(rank) != stage) ++rank;
  return rank;
}

// Whether all that the template's collectives meet is ranks that run the very same program.
bool StaysInStage(const Template& tmpl, const Mesh& mesh, int rank) {
  return std::all_of(tmpl.ops.begin(), tmpl.ops.end(), [&](const Op& op) {
    if (op.kind != OpKind::kCollective) return true;
    const std::vector<int> members = mesh.Members(op.communication.group, rank);
    return std::all_of(members.begin(), members.end(),
                       [&](int member) { return mesh.stage(member) == mesh.stage(rank); });
  });
}

Streams StreamsOf(const ProgramSet& set, const Instruction& instruction) {
  Streams streams{};
  streams[static_cast<int>(instruction.stream)] = true;
  if (instruction.mechanism != Mechanism::kCall) return streams;
  for (const Op& op : set.templates[instruction.template_index].ops) {
    if (op.stream != Stream::kCaller) streams[static_cast<int>(op.stream)] = true;
  }
  return streams;
}

ExpandedProgram UnitsOf(const ProgramSet& set, const Program& program) {
  const int count = static_cast<int>(program.instructions.size());
  std::vector<Streams> streams;
  for (const Instruction& instruction : program.instructions)
    streams.push_back(StreamsOf(set, instruction));
  std::array<int, kStreamCount> before;  // the instruction before on each stream
  std::array<int, kStreamCount> last;    // of a step
  before.fill(-1);
  last.fill(-1);
  for (int i = 0; i < count; ++i) {
    for (int s = 0; s < kStreamCount; ++s) {
      if (streams[i][s]) last[s] = i;
    }
  }
  ExpandedProgram units;
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    Action unit{.instruction = i,
                .mechanism = instruction.mechanism,
                .stream = instruction.stream,
                .communication = instruction.communication};
    for (const Dependency& d : instruction.dependencies)
      unit.dependencies.push_back({d.instruction, d.steps_back});
    for (int s = 0; s < kStreamCount; ++s) {
      if (!streams[i][s]) continue;
      if (const int other = before[s] >= 0 ? before[s] : last[s];
          program.instructions[other].stream != instruction.stream) {
        unit.dependencies.push_back({other, before[s] >= 0 ? 0 : 1});
      }
      before[s] = i;
    }
    units.actions.push_back(std::move(unit));
  }
  return units;
}

}  // namespace

std::optional<std::vector<ExpandedProgram>> CallsThatMeet(
    const std::vector<const ProgramSet*>& stages, const std::string& program, const Mesh& mesh) {
  if (static_cast<int>(stages.size()) != mesh.sizes.pipeline) return std::nullopt;
  std::vector<ExpandedProgram> units;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Program* found = stages[s]->find(program);
    if (found == nullptr) return std::nullopt;
    const int rank = AnyRankOf(mesh, static_cast<int>(s));
    for (const Template& tmpl : stages[s]->templates) {
      if (!StaysInStage(tmpl, mesh, rank)) return std::nullopt;
    }
    units.push_back(UnitsOf(*stages[s], *found));
  }
  return units;
}

}  // namespace strata::program
