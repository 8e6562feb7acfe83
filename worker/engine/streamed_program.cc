#include "worker/engine/streamed_program.h"

#include <utility>

#include "common/check.h"
#include "model/optimizer/adamw.h"
#include "ops/op_struct.h"
#include "ops/step.h"
#include "program/builder/streamed.h"

namespace strata::worker {
namespace {

using program::Operand;

// The streamed step keeps loss and norms in one table; the last word of a step takes them apart.
void SplitFinish(program::ProgramSet& set) {
  for (program::Instruction& finish : set.programs[0].instructions) {
    if (finish.label != "finish") continue;
    const Operand table = finish.operands[0];
    Operand losses = table, norms = table;
    losses.bytes = 8;
    norms.offset = 8;
    norms.bytes = table.bytes - 8;
    finish.operands = {losses, finish.operands[1], finish.operands[2], norms};
    program::Template& tmpl = set.templates[finish.template_index];
    tmpl.formals.resize(4);
    tmpl.ops[0] = ops::ToOp(ops::FinishStep{.rows = 1, .sets = norms.bytes / 8, .clip = 1});
    for (int i = 0; i < 4; ++i) {
      const Operand& operand = finish.operands[i];
      tmpl.ops[0].operands.push_back({.slot = i, .bytes = operand.bytes, .access = operand.access});
    }
  }
}

}  // namespace

program::Template SmallUpdate(const program::ParameterSet& set, int64_t count) {
  return model::EmitAdamW(set, {}, count);
}

program::ProgramSet StreamedProgram(program::LayerGraph graph, int resident) {
  auto built = program::BuildStreamed(
      std::move(graph), SmallUpdate,
      {.home = program::Home::kHost, .resident = resident, .gradient_clip = 1});
  STRATA_CHECK(built.ok());
  SplitFinish(*built);
  return *std::move(built);
}

}  // namespace strata::worker
