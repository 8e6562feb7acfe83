#include "program/ir/program.h"

namespace strata::program {

int GroupSizes::of(Group group) const {
  switch (group) {
    case Group::kNone:
      return 1;
    case Group::kWorld:
      return world();
    case Group::kData:
      return data;
    case Group::kTensor:
      return tensor;
    case Group::kContext:
      return context;
    case Group::kPipeline:
      return pipeline;
    case Group::kEmbedding:
      return pipeline > 1 ? 2 : 1;  // the first and the last stage
  }
  return 1;
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
