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
#include "program/compose/sources/slabs.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"
#include "program/compose/updates/updates.h"
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
        stage_{graph_, plan_, decision.sets.stages[stage], decision.leaves, assembler_},
        slabs_(stage_) {
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
        assembler_.AddPersistent(Slot{.name = "scalars",
                                      .tier = Tier::kHost,
                                      .klass = SlotClass::kScalars,
                                      .bytes = kScalarBytes});
    scalars_ = Whole(slots.scalars, kScalarBytes);
    for (const Constant& constant : graph_.constants) {
      slots.constants.push_back(
          UsesRole(Role::kConstants)
              ? assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes)
              : -1);
    }
    state_.emplace(stage_, update);
    parameters_.emplace(stage_, *state_, slabs_);
    for (size_t s = 0; s < stage_.sets.sets.size(); ++s) {
      const SetPlan& set = stage_.sets.sets[s];
      const int index = static_cast<int>(s);
      slots.sets.push_back({.parameters = state_->slot(index),
                            .moments = {state_->slot(index, State::kFirstMoment),
                                        state_->slot(index, State::kSecondMoment)},
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
    slabs_.Open();
    activations_.emplace(stage_, walk);
    parameters_->Open(UsesOf(graph_, walk, stage_.index()));
    use_ = 0;
    losses_ = assembler_.AddTransient("losses", SlotClass::kBatch, stage_.leaves.rows() * 8);
    LoadScalars(norms);
    tokens_ = targets_ = -1;
    if (UsesRole(Role::kTokens) || UsesRole(Role::kTargets)) LoadBatch(rows);
    assembler_.Zero(OwnLosses(), Purpose::kLoad, "zero losses");
    if (!norms) return;
    norms_ = assembler_.AddTransient(Slot{.name = "norms",
                                          .tier = plan_.home_memory(),
                                          .klass = SlotClass::kBatch,
                                          .bytes = std::max<int64_t>(1, columns()) * row_bytes()});
    if (plan_.groups.pipeline == 1 || columns() == 0) return;
    for (const bool cut : {true, false}) {
      const Operand own = OwnNormsOf(cut);
      if (own.bytes == 0) continue;
      assembler_.Zero(own, Purpose::kLoad, "zero norms", plan_.home_stream());
    }
  }

  // Where what the process around the step gives, and reads, is worked on. Kernels may compute on
  // another tier than the host: what they share then moves.
  bool on_device() const { return plan_.tier == Tier::kDevice; }
  Stream host_stream() const { return on_device() ? Stream::kHost : Stream::kCompute; }

  void LoadScalars(bool train) {
    // The host writes a clip factor of 1 where updates run before the finish makes the step's.
    const bool early = train && plan_.update == UpdatePolicy::kSpeculative;
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(early ? Scalar::kApply : Scalar::kLoss),
                        .access = Access::kWrite}},
                      host_stream());
    compute_scalars_ = on_device() ? Operand{} : scalars_;
    if (on_device() && UsesRole(Role::kScalars)) ScalarsToDevice("scalars to the device");
  }

  void ScalarsToDevice(const char* label) {
    if (compute_scalars_.slot < 0) {
      compute_scalars_ =
          Whole(assembler_.AddTransient("scalars on the device", SlotClass::kScalars, kScalarBytes),
                kScalarBytes);
    }
    assembler_.Transfer(Stream::kFetch, Purpose::kLoad, label, scalars_, compute_scalars_);
  }

  void LoadBatch(int64_t rows) {
    const int64_t bytes = rows * graph_.sequence * 4;
    const auto add = [&](const char* name) {
      return assembler_.AddTransient(
          Slot{.name = name, .tier = Tier::kHost, .klass = SlotClass::kBatch, .bytes = bytes});
    };
    tokens_ = add("tokens");
    targets_ = add("targets");
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {rows, graph_.sequence}}, Purpose::kLoad,
                      "load batch",
                      {{.slot = tokens_, .bytes = bytes, .access = Access::kWrite},
                       {.slot = targets_, .bytes = bytes, .access = Access::kWrite}},
                      host_stream());
    if (!on_device()) return;
    if (UsesRole(Role::kTokens)) tokens_ = ToDevice("tokens", Whole(tokens_, bytes)).slot;
    if (UsesRole(Role::kTargets)) targets_ = ToDevice("targets", Whole(targets_, bytes)).slot;
  }

  // Copies of what is on the other tier.
  Operand ToDevice(const char* what, const Operand& from) {
    const Operand to = Whole(assembler_.AddTransient(absl::StrCat(what, " on the device"),
                                                     SlotClass::kBatch, from.bytes),
                             from.bytes);
    assembler_.Transfer(Stream::kFetch, Purpose::kLoad, absl::StrCat(what, " to the device"), from,
                        to);
    return to;
  }
  Operand ToHost(const char* what, const Operand& from) {
    const Operand to =
        Whole(assembler_.AddTransient(Slot{.name = absl::StrCat(what, " on the host"),
                                           .tier = Tier::kHost,
                                           .klass = SlotClass::kBatch,
                                           .bytes = from.bytes}),
              from.bytes);
    assembler_.Transfer(Stream::kEvict, Purpose::kReport, absl::StrCat(what, " to the host"), from,
                        to);
    return to;
  }

  int64_t columns() const { return decision_.sets.columns; }
  int64_t cut_columns() const { return decision_.sets.cut_columns; }
  int64_t row_bytes() const { return stage_.leaves.rows() * 8; }  // of a column
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
  Operand OwnNormsOf(bool cut) const {
    Operand own = OwnNorms(cut ? 0 : cut_columns(), cut ? cut_columns() : columns());
    own.partial = NormPartial(cut);
    return own;
  }
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
        return Whole(compute_scalars_.slot, formal.bytes);
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
    const Operand& scalars = plan_.beyond_device() ? scalars_ : compute_scalars_;
    const std::unique_ptr<Updates> updates = MakeUpdates(scalars);
    gradients_.emplace(stage_, walk.micro_batches, slabs_, [&](int set) {
      AddNorm(set);
      updates->AtGradient(set, gradients_->OfUpdate(set));
    });
    Follow(walk);
    gradients_->Close();
    if (plan_.home != Home::kSsd) AddNorms();
    AddFinish(true);
    if (on_device() && !plan_.beyond_device()) ScalarsToDevice("results to the device");
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kSnapshot,
                    .label = "snapshot gate",
                    .stream = plan_.home_stream()});
    for (const int set : ByIndex()) updates->AtEnd(set, gradients_->OfUpdate(set));
    gradients_.reset();
    Report();
  }

  std::unique_ptr<Updates> MakeUpdates(const Operand& scalars) {
    switch (plan_.update) {
      case UpdatePolicy::kSpooled:
        return MakeSpooled(stage_, *state_, slabs_, scalars);
      case UpdatePolicy::kSpeculative:
        return MakeSpeculative(stage_, *state_, slabs_, scalars);
      case UpdatePolicy::kDeferred:
        break;
    }
    return MakeDeferred(stage_, *state_, scalars);
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
                    .stream = host_stream(),
                    .operands = {scalars_}});
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

  // In the order in which reductions end.
  void AddNorms() {
    const std::vector<int> order = ByIndex();
    for (auto set = order.rbegin(); set != order.rend(); ++set) AddNorm(*set);
  }

  // Σ gradient² of this rank's ranges.
  void AddNorm(int set) {
    const SetPlan& plan = stage_.sets.sets[set];
    if (!plan.counted) return;
    for (int64_t row = 0; row < norm_rows(); ++row) {
      const Operand range = gradients_->Range(set, row);
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
                        {range, sum}, plan_.home_stream());
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

  // Whether ranks have parts of the norms.
  bool NormsMeet() const {
    return plan_.groups.of(stage_.norm_group()) > 1 || plan_.groups.pipeline > 1 ||
           (plan_.groups.tensor > 1 && cut_columns() > 0);
  }

  // The norms, complete, where the finish reads them.
  Operand CompleteNorms() {
    const int64_t bytes = columns() * row_bytes();
    if (plan_.beyond_device()) {
      if (!NormsMeet()) return Whole(norms_, bytes);
      // Ranks meet on the device.
      const int at_home = norms_;
      const int there = assembler_.AddTransient("norms on the device", SlotClass::kBatch, bytes);
      for (const bool cut : {true, false}) {
        norms_ = at_home;
        const Operand from = OwnNormsOf(cut);
        norms_ = there;
        if (from.bytes == 0) continue;
        assembler_.Transfer(Stream::kFetch, Purpose::kReduce, "norms to the device", from,
                            OwnNormsOf(cut));
      }
    }
    for (const bool cut : {true, false}) {
      Operand own = OwnNormsOf(cut);
      if (cut) SumOver(Group::kTensor, own, "sum norms over tensor");
      own.partial = StagePartial();
      SumOver(Group::kPipeline, own,
              cut ? "sum norms of cut sets over stages" : "sum norms over stages");
    }
    GatherOver(stage_.norm_group(), OwnNorms(0, columns()), Whole(norms_, bytes), "gather norms");
    return on_device() ? ToHost("norms", Whole(norms_, bytes)) : Whole(norms_, bytes);
  }

  // Completes losses and norms on all ranks; derives loss, norm, clip factor, whether to apply.
  void AddFinish(bool norms) {
    Operand own = OwnLosses();
    SumOver(Group::kPipeline, own, "sum losses over stages");
    own.partial = 0;
    Operand losses = Whole(losses_, row_bytes());
    GatherOver(Group::kData, own, losses, "gather losses");
    if (on_device()) losses = ToHost("losses", losses);
    const int64_t sets = norms ? columns() : 0;
    std::vector<Operand> operands{
        losses,
        {.slot = result_.slots.scalars, .bytes = ScalarOffset(Scalar::kLoss)},
        {.slot = result_.slots.scalars,
         .offset = ScalarOffset(Scalar::kLoss),
         .bytes = (sets > 0 ? 5 : 1) * 8,  // kLoss, or kLoss … kClipped
         .access = Access::kWrite}};
    if (sets > 0) operands.push_back(CompleteNorms());
    assembler_.CallOp(
        ops::ToOp(ops::FinishStep{.rows = stage_.leaves.rows(),
                                  .sets = sets,
                                  .data = plan_.groups.data,
                                  .together = stage_.leaves.tree ? stage_.leaves.together : 1,
                                  .norm_ranks = plan_.groups.of(stage_.norm_group()),
                                  .clip = plan_.gradient_clip}),
        Purpose::kNorm, "finish", std::move(operands), host_stream());
  }

  const Decision& decision_;
  const LayerGraph& graph_;
  const Plan& plan_;
  StagePrograms result_;
  Assembler assembler_;
  const Stage stage_;
  Slabs slabs_;
  std::optional<State> state_;
  std::optional<Parameters> parameters_;
  Operand scalars_;  // which the host and predicates read
  // Of the program in progress.
  const Walk* walk_ = nullptr;
  std::optional<Gradients> gradients_;
  std::optional<Activations> activations_;
  Operand compute_scalars_;  // those that kernels read
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
