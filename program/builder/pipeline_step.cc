// What ends a stage's step: reductions of gradients, norms, the update.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/builder/pipeline_stage.h"
#include "program/passes/layout.h"

namespace strata::program {

// Reads the gradient as the partial sum it still is; leaves it complete over the group.
void PipelineStage::AllReduceGradient(int set, Group group) {
  Partial before = sets_[set].partial;
  if (group == Group::kEmbedding) before &= ~PartialOver(Group::kTensor);  // that came first
  const ParameterSet& parameters = result_.sets[set];
  assembler_.Collective(
      {.op = CollectiveOp::kAllReduce, .group = group, .bytes = parameters.bytes()},
      Purpose::kReduce, Stream::kGradients,
      absl::StrCat("reduce ", parameters.name, " over ", Name(group)), Gradient(set, before),
      Gradient(set, before & ~PartialOver(group)), plan_.options.scratch);
}

void PipelineStage::ReduceTied() {
  // In the graph's order, which both stages know.
  for (size_t index = 0; index < plan_.graph.sets.size(); ++index) {
    for (size_t s = 0; s < sets_.size(); ++s) {
      if (sets_[s].index == static_cast<int>(index) && sets_[s].tied()) {
        AllReduceGradient(static_cast<int>(s), Group::kEmbedding);
      }
    }
  }
}

// Columns of this stage's row.
Operand PipelineStage::Leaf(int64_t column, int64_t count) const {
  return {.slot = leaves_,
          .offset = column * 8,
          .bytes = count * 8,
          .shard_group = Group::kPipeline,
          .shard_stride = plan_.columns * 8};
}

// Σ gradient² of each set, those of which each rank of the tensor group has a part first: their
// sums are summed over the group.
void PipelineStage::AddNorms() {
  int64_t column = 1, sharded = 0;
  for (const bool of_sharded : {true, false}) {
    for (size_t s = 0; s < sets_.size(); ++s) {
      const ParameterSet& set = result_.sets[s];
      if (sets_[s].tensor_sharded != of_sharded || !set.counted_in_norm) continue;
      Operand leaf = Leaf(column++, 1);
      leaf.access = Access::kWrite;
      leaf.partial = of_sharded ? PartialOver(Group::kTensor) : 0;
      assembler_.CallOp({.kind = OpKind::kSumSquares,
                         .ints = {set.elements},
                         .flops = 2.0 * static_cast<double>(set.elements)},
                        Purpose::kNorm, absl::StrCat("norm ", set.name),
                        {Gradient(static_cast<int>(s), 0), leaf});
    }
    if (of_sharded) sharded = column - 1;
  }
  if (sharded == 0) return;
  Operand partial = Leaf(1, sharded);
  const Operand complete = partial;
  partial.partial = PartialOver(Group::kTensor);
  assembler_.Collective({.op = CollectiveOp::kAllReduce,
                         .group = Group::kTensor,
                         .dtype = DType::kF64,
                         .bytes = partial.bytes},
                        Purpose::kReduce, Stream::kGradients, "reduce norms over tensor", partial,
                        complete, plan_.options.scratch);
}

// All stages' losses and sums, then what every rank derives from them.
void PipelineStage::AddFinish() {
  const Operand own = Leaf(0, plan_.columns);
  const Operand all = Whole(leaves_, plan_.stages() * own.bytes);
  assembler_.Collective({.op = CollectiveOp::kAllGather,
                         .group = Group::kPipeline,
                         .dtype = DType::kF64,
                         .bytes = own.bytes},
                        Purpose::kReduce, Stream::kGradients, "gather losses and norms", own, all,
                        plan_.options.scratch);
  assembler_.CallOp({.kind = OpKind::kFinishStep,
                     .ints = {plan_.stages(), plan_.columns - 1},
                     .floats = {plan_.options.gradient_clip}},
                    Purpose::kNorm, "finish",
                    {all,
                     {.slot = result_.scalars, .bytes = ScalarOffset(Scalar::kLoss)},
                     {.slot = result_.scalars,
                      .offset = ScalarOffset(Scalar::kLoss),
                      .bytes = 5 * 8,  // kLoss … kClipped
                      .access = Access::kWrite}});
}

void PipelineStage::AddUpdates() {
  for (size_t s = 0; s < sets_.size(); ++s) {
    const int set = static_cast<int>(s);
    assembler_.Call(slots_[s].update_template, Purpose::kUpdate,
                    absl::StrCat("update ", result_.sets[s].name),
                    [&](const Formal& formal) { return BindUpdate(formal, set); });
    assembler_.last().predicate = Predicate{Scalar::kApply};
  }
}

Operand PipelineStage::BindUpdate(const Formal& formal, int set) const {
  const SetSlots& slots = slots_[set];
  switch (formal.role) {
    case Role::kParameters: {
      Operand operand = Whole(slots.parameters, formal.bytes);
      operand.version = formal.index;
      return operand;
    }
    case Role::kState: {
      Operand operand = Whole(slots.moments[formal.index % 2], formal.bytes);
      operand.version = formal.index / 2;
      return operand;
    }
    case Role::kGradients:
      return Gradient(set, 0);
    case Role::kScalars:
      return Whole(result_.scalars, formal.bytes);
    default:
      return {};
  }
}

absl::StatusOr<ProgramSet> PipelineStage::Finish() {
  AddNorms();
  AddFinish();
  AddUpdates();
  assembler_.Add({.mechanism = Mechanism::kSignal,
                  .purpose = Purpose::kReport,
                  .label = "report",
                  .operands = {Whole(result_.scalars, kScalarBytes)}});
  RETURN_IF_ERROR(LayOut(result_));
  return std::move(result_);
}

}  // namespace strata::program
