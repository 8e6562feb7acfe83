#include "program/ir/program.h"

namespace strata::program {

int GroupSizes::of(Axis axis) const {
  switch (axis) {
    case Axis::kReplica:
      return data / shard;
    case Axis::kShard:
      return shard;
    case Axis::kStage:
      return pipeline;
    case Axis::kContext:
      return context;
    case Axis::kExpert:
      return 1;
    case Axis::kTensor:
      return tensor;
  }
  return 1;
}

int GroupSizes::of(Group group) const {
  int size = 1;
  for (int a = 0; a < kAxisCount; ++a) {
    const Axis axis = static_cast<Axis>(a);
    if ((group.axes & Bit(axis)) == 0) continue;
    const bool ends = axis == Axis::kStage && group.stage_ends && pipeline > 1;
    size *= ends ? 2 : of(axis);
  }
  return size;
}

bool AdvancesVersions(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.operands) {
      if (operand.version > 0) return true;
    }
  }
  return false;
}

}  // namespace strata::program
