#include "program/compose/composer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "ops/op_struct.h"
#include "ops/step.h"
#include "program/compose/sources/activations.h"
#include "program/compose/sources/gradients.h"
#include "program/compose/sources/parameters.h"
#include "program/compose/sources/results.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"
#include "program/compose/sources/transfers.h"
#include "program/compose/updates/set_update.h"
#include "program/compose/updates/updates.h"
#include "program/compose/within_limit.h"
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
  StageComposer(const Decision& decision, int stage, const UpdateEmitter& update, bool tied_stay)
      : decision_(decision),
        tied_stay_(tied_stay),
        graph_(decision.graph),
        plan_(decision.plan),
        assembler_(result_.set, decision.plan.tier),
        stage_{graph_, plan_, decision.sets.stages[stage], decision.leaves, assembler_},
        activations_bytes_(Activations::SlabBytes(stage_)),
        transfers_(stage_, TransfersOf::kPasses),
        update_transfers_(stage_, TransfersOf::kUpdates) {
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
    const int slabs = SetUpdate::SlabsAtOnce(stage_, *state_);
    if (plan_.slabs < slabs) {
      return absl::InvalidArgumentError(
          absl::StrCat(plan_.slabs, " slabs, an update needs ", slabs, " at once"));
    }
    Train();
    if (decision_.evaluate.has_value()) Evaluate();
    RETURN_IF_ERROR(LayOut(result_.set));
    return std::move(result_);
  }

  bool ties() const { return ties_; }  // see Gradients

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
    if (UpdatesOnHost()) {
      held_scalars_ = AddHeldScalars("scalars of updates");
      // What updates before the finish read does not change under them.
      if (plan_.update == UpdatePolicy::kSpeculative) {
        fix_up_scalars_ = AddHeldScalars("scalars of fix-ups");
      }
    }
    for (const Constant& constant : graph_.constants) {
      slots.constants.push_back(
          UsesRole(Role::kConstants)
              ? assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes)
              : -1);
    }
    state_.emplace(stage_, update);
    parameters_.emplace(stage_, *state_, transfers_);
    update_transfers_.Open(common::RoundUp(SetUpdate::SlabBytes(stage_, *state_), kSsdBlock));
    for (size_t s = 0; s < stage_.sets.sets.size(); ++s) {
      const SetPlan& set = stage_.sets.sets[s];
      const int index = static_cast<int>(s);
      std::vector<StateSlots::Range> ranges;
      for (const StateRange& range : set.ranges) {
        const std::vector<int>& held = state_->slots(index, static_cast<int>(ranges.size()));
        ranges.push_back({range.first, range.count, held});
      }
      slots.sets.push_back({.parameters = state_->slot(index),
                            .states = state_->states(index),
                            .ranges = std::move(ranges),
                            .parameter_parts = set.parameter_parts,
                            .state_parts = set.state_parts,
                            .saved = set.saved});
    }
  }

  Operand AddHeldScalars(const char* name) {
    return Whole(assembler_.AddPersistent(Slot{.name = name,
                                               .tier = Tier::kHost,
                                               .klass = SlotClass::kScalars,
                                               .bytes = kScalarBytes}),
                 kScalarBytes);
  }

  bool UsesRole(Role role) const {
    for (const Walk* walk : {&decision_.train, decision_.evaluate.has_value() ? &*decision_.evaluate
                                                                              : &decision_.train}) {
      for (int v = 0; v < walk->virtual_stages(); ++v) {
        if (walk->StageOf(v) != stage_.index()) continue;
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

  // Of the largest piece that passes to and from passes; longer ones do so piece by piece.
  int64_t SlabBytes(bool train) const {
    int64_t largest = train ? activations_bytes_ : 0;
    for (const SetPlan& set : stage_.sets.sets) {
      const ParameterSet& of = stage_.SetOf(set);
      if (set.parameters == Home::kSsd) {
        largest = std::max(largest, of.bytes() / set.parameter_parts);
      }
      if (train && set.trainable && set.gradients == Home::kSsd) {
        largest = std::max(largest, of.gradient_bytes());
      }
    }
    // Pieces begin at whole blocks. By halves, so that one is on the link while the next is read.
    return common::RoundUp(std::min(largest, plan_.most_range_bytes()) / 2, kSsdBlock);
  }

  void BeginProgram(const char* name, const Walk& walk, int64_t rows, bool norms) {
    assembler_.BeginProgram(name);
    walk_ = &walk;
    transfers_.Open(SlabBytes(norms));
    const std::vector<Use> uses = UsesOf(graph_, walk, stage_.index());
    activations_.emplace(stage_, walk, uses, transfers_);
    parameters_->Open(uses);
    use_ = 0;
    LoadScalars(norms);
    results_.emplace(stage_, decision_.sets, compute_scalars_.slot, result_.slots.scalars);
    tokens_ = targets_ = positions_ = -1;
    if (UsesRole(Role::kTokens) || UsesRole(Role::kTargets) || UsesRole(Role::kPositions)) {
      LoadBatch(rows);
    }
    results_->Begin(norms);
  }

  void LoadScalars(bool train) {
    // The host writes a clip factor of 1 where updates run before the finish makes the step's.
    const bool early = train && plan_.update == UpdatePolicy::kSpeculative;
    const Scalar end = early ? Scalar::kApply : Scalar::kLoss;
    assembler_.CallOp(
        {.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
        {{.slot = result_.slots.scalars,
          .bytes = plan_.loss_scaling ? ScalarOffset(Scalar::kLossScale) + 8 : ScalarOffset(end),
          .access = Access::kWrite}},
        plan_.host_stream());
    compute_scalars_ = plan_.on_device() ? ScalarsToDevice() : scalars_;
    if (early && UpdatesOnHost()) HoldScalars(held_scalars_, "hold scalars for updates");
  }

  bool UpdatesOnHost() const {
    return AnyRange([](const StateRange& range) { return !Plan::UpdatesOnDevice(range.home); });
  }
  template <typename Predicate>
  bool AnyRange(const Predicate& predicate) const {
    return std::any_of(stage_.sets.sets.begin(), stage_.sets.sets.end(), [&](const SetPlan& set) {
      return std::any_of(set.ranges.begin(), set.ranges.end(), predicate);
    });
  }

  // The next step writes its own scalars while updates on the host may still read this one's.
  void HoldScalars(const Operand& held, const char* label) {
    assembler_.Transfer(Stream::kHost, Purpose::kLoad, label, scalars_, held);
  }

  // On the stream that reads and completes them there: it is in order with the last step's updates
  // without waiting.
  Operand ScalarsToDevice() {
    const Operand there =
        Whole(assembler_.AddTransient("scalars on the device", SlotClass::kScalars, kScalarBytes),
              kScalarBytes);
    assembler_.Transfer(Stream::kCompute, Purpose::kLoad, "scalars to the device", scalars_, there);
    return there;
  }

  void LoadBatch(int64_t rows) {
    const int64_t bytes = rows * graph_.sequence * 4;
    const bool documents = UsesRole(Role::kPositions);
    std::vector<Operand> loaded;
    const auto load = [&](const char* name) {
      const int slot = assembler_.AddTransient(
          Slot{.name = name, .tier = Tier::kHost, .klass = SlotClass::kBatch, .bytes = bytes});
      loaded.push_back({.slot = slot, .bytes = bytes, .access = Access::kWrite});
      return slot;
    };
    tokens_ = load("tokens");
    targets_ = load("targets");
    if (documents) positions_ = load("positions");
    assembler_.CallOp(ops::ToOp(ops::LoadBatch{rows, graph_.sequence, documents}), Purpose::kLoad,
                      "load batch", std::move(loaded), plan_.host_stream());
    if (!plan_.on_device()) return;
    if (UsesRole(Role::kTokens)) tokens_ = ToDevice("tokens", Whole(tokens_, bytes)).slot;
    if (UsesRole(Role::kTargets)) targets_ = ToDevice("targets", Whole(targets_, bytes)).slot;
    if (documents) positions_ = ToDevice("positions", Whole(positions_, bytes)).slot;
  }

  Operand ToDevice(const char* what, const Operand& from) {
    const Operand to = Whole(assembler_.AddTransient(absl::StrCat(what, " on the device"),
                                                     SlotClass::kBatch, from.bytes),
                             from.bytes);
    assembler_.Transfer(Stream::kFetch, Purpose::kLoad, absl::StrCat(what, " to the device"), from,
                        to);
    return to;
  }

  // --- Passes.

  void Follow(const Walk& walk) {
    for (const WalkEvent& event : walk.events) {
      switch (event.kind) {
        case WalkEvent::Kind::kPass:
          if (event.stage == stage_.index()) RunPass(event.pass);
          break;
        case WalkEvent::Kind::kMessage:
          FollowMessage(event);
          break;
        case WalkEvent::Kind::kReduceTied:
          if (stage_.index() == 0 || stage_.index() == walk.stages - 1) gradients_->ReduceTied();
          break;
      }
    }
  }

  void FollowMessage(const WalkEvent& message) {
    const bool sends = message.stage == stage_.index();
    if (sends && message.receiver == message.stage) return activations_->HandOver(message);
    if (sends) activations_->Send(message);
    if (message.receiver == stage_.index()) activations_->Receive(message);
  }

  void RunPass(const WalkPass& pass) {
    activations_->BeginPass();
    for (const Use& use : UsesOf(graph_, *walk_, pass)) {
      parameters_->Before(use_);
      activations_->Before(use_);
      if (gradients_.has_value()) gradients_->Before(use_);
      const Purpose purpose = PurposeOf(graph_.templates[use.template_index], use.kind);
      const int called = gradients_.has_value() ? gradients_->TemplateToCall() : use.template_index;
      assembler_.Call(called, purpose,
                      absl::StrCat(Name(purpose), " ", graph_.layers[use.layer].name, " micro ",
                                   use.micro_batch),
                      [&](const Formal& formal) { return Bind(formal, use); });
      parameters_->After(use_);
      activations_->After(use_);
      if (gradients_.has_value()) gradients_->After(use_);
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
      case Role::kPositions:
        return {.slot = positions_, .offset = first_row_bytes, .bytes = formal.bytes};
      case Role::kLoss: {
        Operand loss = results_->OwnLosses();
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
    assembler_.program().most_in_flight = walk.in_flight[stage_.index()];
    passes_per_row_ = walk.micro_batches / stage_.leaves.rows_per_rank();
    ScalarPlaces scalars{compute_scalars_, held_scalars_};
    SetUpdate update(stage_, *state_, update_transfers_, scalars);
    const std::unique_ptr<Updates> updates = plan_.update == UpdatePolicy::kSpeculative
                                                 ? MakeSpeculative(update, plan_.gradient_clip > 0)
                                                 : MakeDeferred(update);
    gradients_.emplace(
        stage_, walk.micro_batches, UsesOf(graph_, walk, stage_.index()), tied_stay_, transfers_,
        [&](int set) { results_->AddNorm(set, *gradients_); },
        [&](int set) { updates->AtGradient(set, gradients_->OfUpdate(set)); });
    Follow(walk);
    gradients_->Close();
    ties_ = gradients_->ties();
    AddNorms();
    // On a device, where it is another stream's, the results wait for it, and updates for them.
    if (plan_.on_device()) AddSnapshotGate();
    results_->Finish();
    if (!plan_.on_device()) AddSnapshotGate();
    if (UpdatesOnHost()) {
      if (fix_up_scalars_.slot >= 0) scalars.host = fix_up_scalars_;
      HoldScalars(scalars.host, "hold results for updates");
    }
    for (const int set : InOrderOfUse(stage_)) updates->AtEnd(set, gradients_->OfUpdate(set));
    gradients_.reset();
    Report();
  }

  void AddSnapshotGate() {
    Instruction gate{.mechanism = Mechanism::kSignal,
                     .purpose = Purpose::kSnapshot,
                     .label = "snapshot gate",
                     .stream = plan_.host_stream()};
    if (plan_.on_device()) {
      gate.operands = {
          {.slot = result_.slots.scalars,
           .offset = ScalarOffset(Scalar::kClipFactor),
           .bytes = ScalarOffset(Scalar::kLossScale) - ScalarOffset(Scalar::kClipFactor)}};
    }
    assembler_.Add(std::move(gate));
  }

  void Evaluate() {
    const Walk& walk = *decision_.evaluate;
    const int64_t rows = decision_.evaluate_shape.padded * stage_.leaves.rows_per_rank();
    BeginProgram("evaluate", walk, rows, false);
    passes_per_row_ = walk.micro_batches / stage_.leaves.rows_per_rank();
    Follow(walk);
    results_->Finish();
    Report();
  }

  void Report() {
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .stream = plan_.host_stream(),
                    .operands = {scalars_}});
  }

  // Of those that are not early, in the order in which reductions end: from the last set to the
  // first, small ones together.
  void AddNorms() {
    std::vector<int> order = Trainable(stage_);
    std::reverse(order.begin(), order.end());
    std::stable_partition(order.begin(), order.end(),
                          [&](int set) { return !stage_.sets.sets[set].small; });
    for (const int set : order) {
      if (!gradients_->IsEarly(set)) results_->AddNorm(set, *gradients_);
    }
  }

  const Decision& decision_;
  const bool tied_stay_;
  bool ties_ = false;
  const LayerGraph& graph_;
  const Plan& plan_;
  StagePrograms result_;
  Assembler assembler_;
  const Stage stage_;
  const int64_t activations_bytes_;  // the most that passes through a slab
  Transfers transfers_, update_transfers_;
  std::optional<State> state_;
  std::optional<Parameters> parameters_;
  Operand scalars_;  // which the host and predicates read
  // Which updates on the host read; slot -1: there are none.
  Operand held_scalars_, fix_up_scalars_;
  // Of the program in progress.
  const Walk* walk_ = nullptr;
  std::optional<Results> results_;
  std::optional<Gradients> gradients_;
  std::optional<Activations> activations_;
  Operand compute_scalars_;  // those that kernels read
  int use_ = 0;
  int64_t passes_per_row_ = 1;
  int tokens_ = -1, targets_ = -1, positions_ = -1;
};

// Of the device's arena, where it has no limit.
constexpr int64_t kTiedShare = 16;

// The gradient of a tied table stays on the device between the head and the lookup where that takes
// hardly more of it: the head's own needs are mostly its peak.
absl::StatusOr<StagePrograms> ComposeResident(const Decision& decision, int stage,
                                              const UpdateEmitter& update) {
  StageComposer leaving(decision, stage, update, /*tied_stay=*/false);
  ASSIGN_OR_RETURN(StagePrograms made, leaving.Run());
  if (!leaving.ties()) return made;
  ASSIGN_OR_RETURN(StagePrograms staying,
                   StageComposer(decision, stage, update, /*tied_stay=*/true).Run());
  const int64_t least = made.set.arena(Tier::kDevice);
  const int64_t most = decision.plan.device_limit > 0 ? std::max(least, decision.plan.device_limit)
                                                      : least + least / kTiedShare;
  return staying.set.arena(Tier::kDevice) <= most ? std::move(staying) : std::move(made);
}

}  // namespace

absl::StatusOr<StagePrograms> ComposeStage(const Decision& decision, int stage,
                                           const UpdateEmitter& update) {
  const Plan& plan = decision.plan;
  const bool streams = plan.places.parameters.beyond_device() && plan.streaming.resident == 0;
  if (!streams || plan.device_limit == 0) return ComposeResident(decision, stage, update);
  Decision with = decision;
  const auto fits = [&](int resident) -> absl::StatusOr<bool> {
    with.plan.streaming.resident = resident;
    ASSIGN_OR_RETURN(const StagePrograms made,
                     StageComposer(with, stage, update, /*tied_stay=*/false).Run());
    return made.set.arena(Tier::kDevice) <= plan.device_limit;
  };
  ASSIGN_OR_RETURN(with.plan.streaming.resident,
                   MostResident(static_cast<int>(decision.graph.layers.size()), fits));
  return ComposeResident(with, stage, update);
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
