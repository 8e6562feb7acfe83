#include "program/compose/composer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ops/op_struct.h"
#include "ops/step.h"
#include "program/compose/sources/activations.h"
#include "program/compose/sources/gradients.h"
#include "program/compose/sources/parameters.h"
#include "program/compose/sources/stage.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

Purpose PurposeOf(const Template& tmpl, PassKind kind) {
  if (kind == PassKind::kForward) return Purpose::kForward;
  if (kind == PassKind::kBackwardWeight) return Purpose::kBackwardWeight;
  for (const Formal& formal : tmpl.formals) {
    if (formal.role == Role::kInputGradient) return Purpose::kBackwardInput;
  }
  return Purpose::kBackward;
}

class StageComposer {
 public:
  StageComposer(const Decision& decision, int stage, const UpdateEmitter& update)
      : decision_(decision),
        graph_(decision.graph),
        plan_(decision.plan),
        assembler_(result_.set, decision.plan.tier),
        stage_{graph_, plan_, decision.sets.stages[stage], decision.leaves, assembler_} {
    result_.set.groups = plan_.groups;
    result_.set.templates = graph_.templates;
    for (const SetPlan& set : stage_.sets.sets) {
      ParameterSet copy = graph_.sets[set.index];
      copy.counted_in_norm = set.counted;
      result_.set.sets.push_back(std::move(copy));
    }
    AddState(update);
  }

  absl::StatusOr<StagePrograms> Run() {
    Train();
    if (decision_.evaluate.has_value()) Evaluate();
    RETURN_IF_ERROR(LayOut(result_.set));
    return std::move(result_);
  }

 private:
  // --- State.

  void AddState(const UpdateEmitter& update) {
    StateSlots& slots = result_.slots;
    slots.scalars = result_.set.scalars =
        assembler_.AddPersistent("scalars", SlotClass::kScalars, kScalarBytes);
    for (const Constant& constant : graph_.constants) {
      slots.constants.push_back(
          UsesRole(Role::kConstants)
              ? assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes)
              : -1);
    }
    parameters_.emplace(stage_, update);
    for (size_t s = 0; s < stage_.sets.sets.size(); ++s) {
      const SetPlan& set = stage_.sets.sets[s];
      const int index = static_cast<int>(s);
      slots.sets.push_back({.parameters = parameters_->slot(index),
                            .moments = parameters_->moments(index),
                            .parameter_parts = set.parameter_parts,
                            .state_parts = set.state_parts});
    }
  }

  bool UsesRole(Role role) const {
    for (const Walk* walk : {&decision_.train, decision_.evaluate.has_value() ? &*decision_.evaluate
                                                                              : &decision_.train}) {
      for (int v = stage_.index(); v < walk->virtual_stages(); v += walk->stages) {
        for (int l = walk->layers[v].first; l < walk->layers[v].second; ++l) {
          for (const PassKind kind :
               {PassKind::kForward, PassKind::kBackward, PassKind::kBackwardWeight}) {
            const int called = walk->TemplateOf(graph_, l, kind);
            if (called < 0) continue;
            for (const Formal& formal : graph_.templates[called].formals) {
              if (formal.role == role) return true;
            }
          }
        }
      }
    }
    return false;
  }

  // --- What every program begins with.

  // Of the losses and norms this rank's own rows are zeroed where not everything is written.
  void BeginProgram(const char* name, const Walk& walk, int64_t rows, bool norms) {
    assembler_.BeginProgram(name);
    walk_ = &walk;
    activations_.emplace(stage_, walk);
    parameters_->Open(UsesOf(graph_, walk, stage_.index()));
    use_ = 0;
    const int64_t batch_bytes = rows * graph_.sequence * 4;
    losses_ = assembler_.AddTransient("losses", SlotClass::kBatch, stage_.leaves.rows() * 8);
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}});
    if (UsesRole(Role::kTokens) || UsesRole(Role::kTargets)) {
      tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, batch_bytes);
      targets_ = assembler_.AddTransient("targets", SlotClass::kBatch, batch_bytes);
      assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {rows, graph_.sequence}},
                        Purpose::kLoad, "load batch",
                        {{.slot = tokens_, .bytes = batch_bytes, .access = Access::kWrite},
                         {.slot = targets_, .bytes = batch_bytes, .access = Access::kWrite}});
    }
    assembler_.Zero(OwnLosses(), Purpose::kLoad, "zero losses");
    if (!norms) return;
    norms_ = assembler_.AddTransient("norms", SlotClass::kBatch,
                                     std::max<int64_t>(1, columns()) * stage_.leaves.rows() * 8);
    if (plan_.groups.pipeline == 1 || columns() == 0) return;
    for (const bool cut : {true, false}) {
      Operand own = OwnNorms(cut ? 0 : cut_columns(), cut ? cut_columns() : columns());
      if (own.bytes == 0) continue;
      own.partial = NormPartial(cut);
      assembler_.Zero(own, Purpose::kLoad, "zero norms");
    }
  }

  int64_t columns() const { return decision_.sets.columns; }
  int64_t cut_columns() const { return decision_.sets.cut_columns; }
  Partial StagePartial() const {
    return plan_.groups.pipeline > 1 ? PartialOver(Group::kPipeline) : Partial{0};
  }
  Partial NormPartial(bool cut) const {
    return StagePartial() |
           (cut && plan_.groups.tensor > 1 ? PartialOver(Group::kTensor) : Partial{0});
  }
  Operand OwnLosses() const {
    Operand own = stage_.OwnPart(Group::kData, losses_, stage_.leaves.rows() * 8);
    own.partial = StagePartial();
    return own;
  }
  // Rows of the rank of the columns [first, end).
  int64_t norm_rows() const { return stage_.leaves.rows() / plan_.groups.of(stage_.norm_group()); }
  Operand OwnNorms(int64_t first, int64_t end) const {
    return stage_.OwnPart(stage_.norm_group(), norms_, columns() * stage_.leaves.rows() * 8,
                          first * norm_rows() * 8, (end - first) * norm_rows() * 8);
  }

  // --- Passes.

  void Follow(const Walk& walk) {
    for (const WalkEvent& event : walk.events) {
      switch (event.kind) {
        case WalkEvent::Kind::kPass:
          if (event.stage == stage_.index()) RunPass(event.pass);
          break;
        case WalkEvent::Kind::kMessage:
          if (event.stage == stage_.index()) activations_->Send(event);
          if (event.receiver == stage_.index()) activations_->Receive(event);
          break;
        case WalkEvent::Kind::kReduceTied:
          if (stage_.index() == 0 || stage_.index() == walk.stages - 1) gradients_->ReduceTied();
          break;
      }
    }
  }

  void RunPass(const WalkPass& pass) {
    activations_->BeginPass();
    for (const Use& use : UsesOf(graph_, *walk_, pass)) {
      parameters_->Before(use_);
      activations_->Before(use);
      if (gradients_.has_value()) gradients_->Before(use);
      const Purpose purpose = PurposeOf(graph_.templates[use.template_index], use.kind);
      assembler_.Call(use.template_index, purpose,
                      absl::StrCat(Name(purpose), " ", graph_.layers[use.layer].name, " micro ",
                                   use.micro_batch),
                      [&](const Formal& formal) { return Bind(formal, use); });
      if (gradients_.has_value()) gradients_->After(use);
      ++use_;
    }
  }

  int PositionOf(const Use& use, const Formal& formal) const {
    return static_cast<int>(stage_.sets.Find(graph_.layers[use.layer].sets[formal.index]) -
                            stage_.sets.sets.data());
  }

  Operand Bind(const Formal& formal, const Use& use) {
    const int64_t first_row_bytes =
        use.micro_batch * graph_.micro_batch * graph_.sequence * int64_t{4};
    switch (formal.role) {
      case Role::kParameters:
        return parameters_->Bind(use_, PositionOf(use, formal), formal.bytes);
      case Role::kGradients:
        return gradients_->Bind(PositionOf(use, formal), use, formal.bytes);
      case Role::kTokens:
        return {.slot = tokens_, .offset = first_row_bytes, .bytes = formal.bytes};
      case Role::kTargets:
        return {.slot = targets_, .offset = first_row_bytes, .bytes = formal.bytes};
      case Role::kLoss: {
        Operand loss = OwnLosses();
        loss.offset += use.micro_batch / passes_per_row_ * 8;
        loss.bytes = 8;
        return loss;
      }
      case Role::kScalars:
        return Whole(result_.slots.scalars, formal.bytes);
      case Role::kConstants:
        return Whole(result_.slots.constants[formal.index], formal.bytes);
      default:
        return activations_->Bind(formal, use);
    }
  }

  // --- Programs.

  void Train() {
    const Walk& walk = decision_.train;
    BeginProgram("train", walk, walk.micro_batches * graph_.micro_batch, true);
    passes_per_row_ = walk.micro_batches / stage_.leaves.rows_per_rank();
    gradients_.emplace(stage_, walk.micro_batches);
    Follow(walk);
    gradients_->Close();
    AddNorms();
    AddFinish(true);
    assembler_.Add(
        {.mechanism = Mechanism::kSignal, .purpose = Purpose::kSnapshot, .label = "snapshot gate"});
    const Operand scalars = Whole(result_.slots.scalars, kScalarBytes);
    for (const int set : ByIndex()) parameters_->Update(set, gradients_->OfUpdate(set), scalars);
    gradients_.reset();
    Report();
  }

  void Evaluate() {
    const Walk& walk = *decision_.evaluate;
    const int64_t rows = decision_.evaluate_shape.padded * stage_.leaves.rows_per_rank();
    BeginProgram("evaluate", walk, rows, false);
    passes_per_row_ = walk.micro_batches / stage_.leaves.rows_per_rank();
    Follow(walk);
    AddFinish(false);
    Report();
  }

  void Report() {
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .operands = {Whole(result_.slots.scalars, kScalarBytes)}});
  }

  // Trainable sets in the graph's order; positions in StagePlan::sets.
  std::vector<int> ByIndex() const {
    std::vector<int> order;
    for (size_t s = 0; s < stage_.sets.sets.size(); ++s) {
      if (stage_.sets.sets[s].trainable) order.push_back(static_cast<int>(s));
    }
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return stage_.sets.sets[a].index < stage_.sets.sets[b].index; });
    return order;
  }

  // Σ gradient² of this rank's ranges, in the order in which reductions end.
  void AddNorms() {
    const std::vector<int> order = ByIndex();
    for (auto set = order.rbegin(); set != order.rend(); ++set) {
      const SetPlan& plan = stage_.sets.sets[*set];
      if (!plan.counted) continue;
      for (int64_t row = 0; row < norm_rows(); ++row) {
        const Operand range = gradients_->Range(*set, row);
        Operand sum = OwnNorms(plan.column, plan.column + 1);
        sum.offset += row * 8;
        sum.bytes = 8;
        sum.access = Access::kWrite;
        sum.partial = NormPartial(plan.cut_by_tensor);
        assembler_.CallOp({.kind = OpKind::kSumSquares,
                           .ints = {range.bytes / 4},
                           .flops = static_cast<double>(range.bytes) / 2.0},
                          Purpose::kNorm,
                          absl::StrCat("norm ", graph_.sets[plan.index].name, " range ", row),
                          {range, sum});
      }
    }
  }

  // Sums over the group in place what each of its ranks has a part of.
  void SumOver(Group group, Operand place, const std::string& label) {
    if (plan_.groups.of(group) == 1 || place.bytes == 0) return;
    Operand after = place;
    after.partial &= static_cast<Partial>(~PartialOver(group));
    assembler_.Collective({.op = CollectiveOp::kAllReduce,
                           .group = group,
                           .dtype = DType::kF64,
                           .bytes = place.bytes},
                          Purpose::kReduce, Stream::kGradients, label, place, after, plan_.scratch);
  }

  void GatherOver(Group group, const Operand& own, const Operand& whole, const std::string& label) {
    if (plan_.groups.of(group) == 1) return;
    assembler_.Collective(
        {.op = CollectiveOp::kAllGather, .group = group, .dtype = DType::kF64, .bytes = own.bytes},
        Purpose::kReduce, Stream::kGradients, label, own, whole, plan_.scratch);
  }

  // Completes losses and norms on all ranks; derives loss, norm, clip factor, whether to apply.
  void AddFinish(bool norms) {
    Operand losses = OwnLosses();
    SumOver(Group::kPipeline, losses, "sum losses over stages");
    losses.partial = 0;
    const int64_t loss_bytes = stage_.leaves.rows() * 8;
    GatherOver(Group::kData, losses, Whole(losses_, loss_bytes), "gather losses");
    const int64_t sets = norms ? columns() : 0;
    if (sets > 0) {
      for (const bool cut : {true, false}) {
        Operand own = OwnNorms(cut ? 0 : cut_columns(), cut ? cut_columns() : columns());
        own.partial = NormPartial(cut);
        if (cut) SumOver(Group::kTensor, own, "sum norms over tensor");
        own.partial = StagePartial();
        SumOver(Group::kPipeline, own,
                cut ? "sum norms of cut sets over stages" : "sum norms over stages");
      }
      const int64_t bytes = columns() * stage_.leaves.rows() * 8;
      GatherOver(stage_.norm_group(), OwnNorms(0, columns()), Whole(norms_, bytes), "gather norms");
    }
    std::vector<Operand> operands{
        Whole(losses_, loss_bytes),
        {.slot = result_.slots.scalars, .bytes = ScalarOffset(Scalar::kLoss)},
        {.slot = result_.slots.scalars,
         .offset = ScalarOffset(Scalar::kLoss),
         .bytes = (sets > 0 ? 5 : 1) * 8,  // kLoss, or kLoss … kClipped
         .access = Access::kWrite}};
    if (sets > 0) operands.push_back(Whole(norms_, columns() * stage_.leaves.rows() * 8));
    assembler_.CallOp(
        ops::ToOp(ops::FinishStep{.rows = stage_.leaves.rows(),
                                  .sets = sets,
                                  .data = plan_.groups.data,
                                  .together = stage_.leaves.tree ? stage_.leaves.together : 1,
                                  .norm_ranks = plan_.groups.of(stage_.norm_group()),
                                  .clip = plan_.gradient_clip}),
        Purpose::kNorm, "finish", std::move(operands));
  }

  const Decision& decision_;
  const LayerGraph& graph_;
  const Plan& plan_;
  StagePrograms result_;
  Assembler assembler_;
  const Stage stage_;
  std::optional<Parameters> parameters_;
  // Of the program in progress.
  const Walk* walk_ = nullptr;
  std::optional<Gradients> gradients_;
  std::optional<Activations> activations_;
  int use_ = 0;
  int64_t passes_per_row_ = 1;
  int tokens_ = -1, targets_ = -1, losses_ = -1, norms_ = -1;
};

}  // namespace

absl::StatusOr<Decision> Decide(LayerGraph graph, const Plan& plan) {
  Decision decision{.graph = std::move(graph), .plan = plan};
  ASSIGN_OR_RETURN(decision.train, PlanTraining(decision.graph, plan));
  decision.leaves = LeavesOf(plan, decision.graph.micro_batch);
  for (ParameterSet& set : decision.graph.sets) FlattenSet(set, decision.leaves.rows());
  if (plan.evaluate_batch > 0) {
    decision.evaluate_shape = ShapeOfEvaluation(plan, decision.graph.micro_batch);
    const int64_t passes = decision.evaluate_shape.padded / decision.graph.micro_batch *
                           decision.leaves.rows_per_rank();
    ASSIGN_OR_RETURN(decision.evaluate,
                     PlanEvaluation(decision.graph, plan, static_cast<int>(passes)));
  }
  ASSIGN_OR_RETURN(decision.sets, PlanSets(decision.graph, plan, decision.train));
  return decision;
}

absl::StatusOr<StagePrograms> ComposeStage(const Decision& decision, int stage,
                                           const UpdateEmitter& update) {
  return StageComposer(decision, stage, update).Run();
}

absl::StatusOr<std::vector<StagePrograms>> Compose(LayerGraph graph, const Plan& plan,
                                                   const UpdateEmitter& update) {
  ASSIGN_OR_RETURN(const Decision decision, Decide(std::move(graph), plan));
  std::vector<StagePrograms> stages;
  for (int r = 0; r < plan.groups.pipeline; ++r) {
    ASSIGN_OR_RETURN(StagePrograms stage, ComposeStage(decision, r, update));
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace strata::program
