#include "program/compose/sources/results.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/elementwise.h"
#include "ops/op_struct.h"
#include "ops/step.h"

namespace strata::program {

Results::Results(const Stage& stage, const SetPlans& sets, int scalars, int on_host)
    : stage_(stage), sets_(sets), scalars_(scalars), on_host_(on_host) {
  losses_ = stage.assembler.AddTransient("losses", SlotClass::kBatch, column_bytes());
}

void Results::Begin(bool norms) {
  stage_.assembler.Zero(OwnLosses(), Purpose::kLoad, "zero losses");
  if (!norms) return;
  norms_ = stage_.assembler.AddTransient("norms", SlotClass::kBatch,
                                         std::max<int64_t>(1, columns()) * column_bytes());
  if (stage_.plan.groups.pipeline == 1) return;
  for (const bool cut : {true, false}) {
    const Operand own = OwnNormsOf(cut);
    if (own.bytes == 0) continue;
    stage_.assembler.Zero(own, Purpose::kLoad, "zero norms");
  }
}

Partial Results::StagePartial() const {
  return stage_.plan.groups.pipeline > 1 ? PartialOver(Group::kPipeline) : Partial{0};
}

// Each rank of a context group has the loss of some rows.
Partial Results::LossPartial() const {
  return StagePartial() |
         (stage_.plan.groups.context > 1 ? PartialOver(Group::kContext) : Partial{0});
}

Partial Results::NormPartial(bool cut) const {
  return StagePartial() |
         (cut && stage_.plan.groups.tensor > 1 ? PartialOver(Group::kTensor) : Partial{0});
}

Operand Results::OwnLosses() const {
  Operand own = stage_.OwnPart(Group::kData, losses_, column_bytes());
  own.partial = LossPartial();
  return own;
}

Operand Results::OwnNorms(int64_t first, int64_t end) const {
  return stage_.OwnPart(stage_.norm_group(), norms_, columns() * column_bytes(),
                        first * norm_rows() * 8, (end - first) * norm_rows() * 8);
}

Operand Results::OwnNormsOf(bool cut) const {
  Operand own = OwnNorms(cut ? 0 : cut_columns(), cut ? cut_columns() : columns());
  own.partial = NormPartial(cut);
  return own;
}

void Results::AddNorm(int set, const Gradients& gradients) {
  const SetPlan& plan = stage_.sets.sets[set];
  if (!plan.counted) return;
  for (int64_t row = 0; row < norm_rows(); ++row) {
    const Operand range = gradients.Range(set, row);
    Operand sum = OwnNorms(plan.column, plan.column + 1);
    sum.offset += row * 8;
    sum.bytes = 8;
    sum.access = Access::kWrite;
    sum.partial = NormPartial(plan.cut_by_tensor);
    const DType type = stage_.plan.gradient;
    stage_.assembler.CallOp(
        ops::ToOp(ops::SumSquares{range.bytes / SizeOf(type), type}), Purpose::kNorm,
        absl::StrCat("norm ", stage_.SetOf(plan).name, " range ", row), {range, sum});
  }
}

// In place what each of the group's ranks has a part of.
void Results::SumOver(Group group, Operand place, const std::string& label) {
  if (stage_.plan.groups.of(group) == 1 || place.bytes == 0) return;
  Operand after = place;
  after.partial &= static_cast<Partial>(~PartialOver(group));
  stage_.assembler.Collective(
      {.op = CollectiveOp::kAllReduce, .group = group, .dtype = DType::kF64, .bytes = place.bytes},
      Purpose::kReduce, Stream::kGradients, label, place, after, stage_.plan.scratch);
}

void Results::GatherOver(Group group, const Operand& own, const Operand& whole,
                         const std::string& label) {
  if (stage_.plan.groups.of(group) == 1) return;
  stage_.assembler.Collective(
      {.op = CollectiveOp::kAllGather, .group = group, .dtype = DType::kF64, .bytes = own.bytes},
      Purpose::kReduce, Stream::kGradients, label, own, whole, stage_.plan.scratch);
}

// Where the finish reads them.
Operand Results::CompleteNorms() {
  const int64_t bytes = columns() * column_bytes();
  for (const bool cut : {true, false}) {
    Operand own = OwnNormsOf(cut);
    if (cut) SumOver(Group::kTensor, own, "sum norms over tensor");
    own.partial = StagePartial();
    SumOver(Group::kPipeline, own,
            cut ? "sum norms of cut sets over stages" : "sum norms over stages");
  }
  GatherOver(stage_.norm_group(), OwnNorms(0, columns()), Whole(norms_, bytes), "gather norms");
  return Whole(norms_, bytes);
}

void Results::Finish() {
  Operand own = OwnLosses();
  SumOver(Group::kPipeline, own, "sum losses over stages");
  own.partial &= static_cast<Partial>(~PartialOver(Group::kPipeline));
  SumOver(Group::kContext, own, "sum losses over context");
  own.partial = 0;
  const Operand losses = Whole(losses_, column_bytes());
  GatherOver(Group::kData, own, losses, "gather losses");
  const int64_t sets = norms_ >= 0 ? columns() : 0;
  Operand results{.slot = scalars_,
                  .offset = ScalarOffset(Scalar::kLoss),
                  .bytes = (sets > 0 ? 5 : 1) * 8,  // kLoss, or kLoss … kClipped
                  .access = Access::kWrite};
  std::vector<Operand> operands{
      losses, {.slot = scalars_, .bytes = ScalarOffset(Scalar::kLoss)}, results};
  if (sets > 0) operands.push_back(CompleteNorms());
  const bool scaled = stage_.plan.loss_scaling;
  if (scaled) {
    operands.push_back({.slot = scalars_, .offset = ScalarOffset(Scalar::kLossScale), .bytes = 8});
  }
  stage_.assembler.CallOp(
      ops::ToOp(ops::FinishStep{.rows = stage_.leaves.rows(),
                                .sets = sets,
                                .data = stage_.plan.groups.data,
                                .together = stage_.leaves.tree ? stage_.leaves.together : 1,
                                .norm_ranks = stage_.plan.groups.of(stage_.norm_group()),
                                .clip = stage_.plan.gradient_clip,
                                .scaled = scaled}),
      Purpose::kNorm, "finish", std::move(operands));
  if (on_host_ == scalars_) return;
  // On the stream of updates, which are decided by what it brings: a copy of another stream would
  // be waited for twice.
  results.access = Access::kRead;
  Operand on_host = results;
  on_host.slot = on_host_;
  stage_.assembler.Transfer(Stream::kCompute, Purpose::kReport, "results to the host", results,
                            on_host);
}

}  // namespace strata::program
