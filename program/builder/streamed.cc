#include "program/builder/streamed.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/builder/residency.h"
#include "program/builder/streamed_state.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

absl::Status CheckOptions(const StreamedOptions& o) {
  const auto refuse = [](const char* what) { return absl::InvalidArgumentError(what); };
  if (o.moved < 1 || o.resident < o.moved) return refuse("moved must be between 1 and resident");
  if (o.home == Home::kShards ? o.data < 2 : o.data != 1) {
    return refuse("shards need two ranks or more, host and SSD homes take one");
  }
  if (o.home == Home::kShards && !o.scratch) return refuse("no scratch formula");
  if (o.train && (o.home == Home::kSsd) != (o.policy != UpdatePolicy::kDeferred)) {
    return refuse("state on SSD is updated spooled or speculatively, other state deferred");
  }
  if (o.home == Home::kSsd && o.slabs < 5) return refuse("fewer than 5 slabs");
  if (o.micro_batches < 1) return refuse("no micro-batches");
  return absl::OkStatus();
}

class Builder {
 public:
  Builder(LayerGraph graph, const StreamedOptions& options)
      : graph_(std::move(graph)), options_(options), assembler_(result_, Tier::kDevice) {
    for (ParameterSet& set : graph_.sets) FlattenSet(set, options.data);
    result_.groups.data = options.data;
    result_.templates = graph_.templates;
    result_.sets = graph_.sets;
  }

  absl::StatusOr<ProgramSet> Run(const UpdateEmitter& update) {
    AddState(update);
    BeginProgram();
    if (options_.train) {
      for (int64_t m = 0; m < options_.micro_batches; ++m) AddUses(m);
    } else {
      for (size_t l = 0; l < graph_.layers.size(); ++l) AddUse(0, static_cast<int>(l), false);
    }
    WalkUses();
    Finish();
    if (options_.train) Update();
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .stream = state_->update_stream(),
                    .operands = {Whole(result_.scalars, kScalarBytes)}});
    RETURN_IF_ERROR(LayOut(result_));
    return std::move(result_);
  }

 private:
  struct Use {
    int64_t micro = 0;
    int layer = 0;
    bool backward = false;
    int fetched = -1;  // place in the sequence of uses that need parameters; -1: none needed
  };

  int64_t sets() const { return static_cast<int64_t>(graph_.sets.size()); }
  int64_t leaves_bytes() const { return options_.data * (1 + (options_.train ? sets() : 0)) * 8; }

  // --- State and windows.

  void AddState(const UpdateEmitter& update) {
    state_.emplace(assembler_, graph_, options_, update);
    result_.scalars = assembler_.AddPersistent(Slot{.name = "scalars",
                                                    .tier = state_->update_tier(),
                                                    .klass = SlotClass::kScalars,
                                                    .bytes = kScalarBytes});
    for (const Constant& constant : graph_.constants) {
      constants_.push_back(
          assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes));
    }
    gradient_home_.assign(sets(), -1);
    contributions_.assign(sets(), 0);
    for (const Layer& layer : graph_.layers) {
      int64_t bytes = 0;
      for (const int set : layer.sets) bytes += graph_.sets[set].bytes();
      window_bytes_ = std::max(window_bytes_, bytes);
    }
  }

  void BeginProgram() {
    assembler_.BeginProgram(options_.train ? "train" : "evaluate");
    for (int i = 0; i < options_.resident; ++i) {
      window_.push_back(assembler_.AddTransient(absl::StrCat("window ", i), SlotClass::kParameters,
                                                window_bytes_));
    }
    for (int i = 0; i < 2 && options_.train; ++i) {
      gradients_.push_back(assembler_.AddTransient(absl::StrCat("gradient window ", i),
                                                   SlotClass::kGradients, window_bytes_));
    }
    state_->AddSlabs();
    const int64_t rows = graph_.micro_batch * options_.micro_batches;
    batch_bytes_ = rows * graph_.sequence * 4;
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, batch_bytes_);
    targets_ = assembler_.AddTransient("targets", SlotClass::kBatch, batch_bytes_);
    leaves_ = assembler_.AddTransient(Slot{.name = "leaves",
                                           .tier = state_->update_tier(),
                                           .klass = SlotClass::kBatch,
                                           .bytes = leaves_bytes()});
    // A speculative update reads a clip factor of 1, which the host writes with the rest.
    const Scalar end =
        options_.policy == UpdatePolicy::kSpeculative ? Scalar::kApply : Scalar::kLoss;
    assembler_.CallOp(
        {.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
        {{.slot = result_.scalars, .bytes = ScalarOffset(end), .access = Access::kWrite}},
        state_->update_stream());
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {rows, graph_.sequence}}, Purpose::kLoad,
                      "load batch",
                      {{.slot = tokens_, .bytes = batch_bytes_, .access = Access::kWrite},
                       {.slot = targets_, .bytes = batch_bytes_, .access = Access::kWrite}});
    scalars_ = result_.scalars;
    loss_ = leaves_;
    if (state_->on_host()) {
      scalars_ =
          assembler_.AddTransient("scalars on the device", SlotClass::kScalars, kScalarBytes);
      loss_ = assembler_.AddTransient("loss", SlotClass::kBatch, 8);
      assembler_.Transfer(Stream::kFetch, Purpose::kLoad, "scalars to the device",
                          Whole(result_.scalars, kScalarBytes), Whole(scalars_, kScalarBytes));
    }
    assembler_.Zero(OwnLeaf(0), Purpose::kLoad, "zero loss");
  }

  // --- The walk over layers.

  bool NeedsParameters(int template_index) const {
    for (const Formal& formal : result_.templates[template_index].formals) {
      if (formal.role == Role::kParameters) return true;
    }
    return false;
  }

  void AddUse(int64_t micro, int layer, bool backward) {
    const LayerTemplates& templates = graph_.layers[layer].templates;
    const int called = !options_.train ? templates.evaluate
                       : backward      ? templates.backward
                                       : templates.forward;
    if (called < 0) return;
    Use use{micro, layer, backward};
    if (NeedsParameters(called)) {
      use.fetched = static_cast<int>(sequence_.size());
      sequence_.push_back(layer);
    }
    uses_.push_back(use);
  }

  void AddUses(int64_t micro) {
    const int layers = static_cast<int>(graph_.layers.size());
    for (int l = 0; l < layers; ++l) AddUse(micro, l, false);
    for (int l = layers - 1; l >= 0; --l) AddUse(micro, l, true);
    for (const Layer& layer : graph_.layers) {
      for (const int set : layer.sets) ++contributions_[set];
    }
  }

  void WalkUses() {
    const ResidencyPlan plan = PlanResidency(sequence_, options_.resident, options_.moved);
    boundaries_.assign(graph_.layers.size(), -1);
    saved_.assign(graph_.layers.size(), {});
    for (const Use& use : uses_) {
      if (use.fetched >= 0) {
        for (const Fetch& fetch : plan.before[use.fetched]) AddFetch(fetch, use.micro);
        place_ = plan.place_of_use[use.fetched];
      }
      CallLayer(use);
    }
    AddPendingSums();
  }

  void AddFetch(const Fetch& fetch, int64_t micro) {
    int64_t offset = 0;
    for (const int set : graph_.layers[fetch.layer].sets) {
      const int64_t bytes = graph_.sets[set].bytes();
      const Operand to{.slot = window_[fetch.place], .offset = offset, .bytes = bytes};
      const std::string label = absl::StrCat("fetch ", graph_.sets[set].name, " micro ", micro);
      const Operand from = state_->parameters(set);
      if (options_.home == Home::kShards) {
        assembler_.Collective(
            {.op = CollectiveOp::kAllGather, .group = Group::kData, .bytes = from.bytes},
            Purpose::kGather, Stream::kParameters, label, from, to, options_.scratch);
      } else if (options_.home == Home::kHost) {
        assembler_.Transfer(Stream::kFetch, Purpose::kFetch, label, from, to);
      } else {
        const Operand slab = state_->NextSlab(bytes);
        assembler_.Transfer(Stream::kSsdRead, Purpose::kFetch, absl::StrCat("read ", label), from,
                            slab);
        assembler_.Transfer(Stream::kFetch, Purpose::kFetch, label, slab, to);
      }
      offset += bytes;
    }
  }

  void CallLayer(const Use& use) {
    const Layer& layer = graph_.layers[use.layer];
    const LayerTemplates& templates = layer.templates;
    const Purpose purpose = use.backward ? Purpose::kBackward : Purpose::kForward;
    const int called = !options_.train ? templates.evaluate
                       : use.backward  ? templates.backward
                                       : templates.forward;
    if (use.backward) BeginGradients(layer);
    assembler_.Call(called, purpose,
                    absl::StrCat(Name(purpose), " ", layer.name, " micro ", use.micro),
                    [&](const Formal& formal) { return Bind(formal, use); });
    if (!use.backward) return;
    AddPendingSums();
    int64_t offset = 0;
    for (const int set : layer.sets) {
      Operand gradient{
          .slot = gradients_[gradient_], .offset = offset, .bytes = graph_.sets[set].bytes()};
      gradient.partial = partial();
      MoveGradient(set, gradient, use.micro);
      offset += gradient.bytes;
    }
    if (use.layer == 0) gradient_stream_ = -1;  // the next micro-batch has its own
  }

  Partial partial() const { return options_.data > 1 ? PartialOver(Group::kData) : 0; }

  void BeginGradients(const Layer& layer) {
    gradient_ = 1 - gradient_;
    int64_t bytes = 0;
    for (const int set : layer.sets) bytes += graph_.sets[set].bytes();
    Operand buffer = Whole(gradients_[gradient_], bytes);
    buffer.partial = partial();
    assembler_.Zero(buffer, Purpose::kBackward, absl::StrCat("zero gradient of ", layer.name));
  }

  Operand Bind(const Formal& formal, const Use& use) {
    const Layer& layer = graph_.layers[use.layer];
    const auto activation = [&](const std::string& what) {
      return assembler_.AddTransient(absl::StrCat(what, " ", layer.name, " micro ", use.micro),
                                     SlotClass::kActivations, formal.bytes);
    };
    const auto in_window = [&](int slot) {
      Operand operand{.slot = slot, .bytes = formal.bytes};
      for (int i = 0; i < formal.index; ++i) operand.offset += graph_.sets[layer.sets[i]].bytes();
      return operand;
    };
    const auto batch = [&](int slot) {
      return Operand{.slot = slot, .offset = use.micro * formal.bytes, .bytes = formal.bytes};
    };
    switch (formal.role) {
      case Role::kInput:
        return Whole(boundaries_[use.layer - 1], formal.bytes);
      case Role::kOutput:
        boundaries_[use.layer] = activation("activation after");
        return Whole(boundaries_[use.layer], formal.bytes);
      case Role::kSaved: {
        std::vector<int>& saved = saved_[use.layer];
        saved.resize(std::max<size_t>(saved.size(), formal.index + 1), -1);
        if (!use.backward) saved[formal.index] = activation(absl::StrCat(formal.name, " of"));
        return Whole(saved[formal.index], formal.bytes);
      }
      case Role::kGradientStream:
        if (gradient_stream_ < 0) gradient_stream_ = activation("gradient stream from");
        return Whole(gradient_stream_, formal.bytes);
      case Role::kParameters:
        return in_window(window_[place_]);
      case Role::kGradients: {
        Operand operand = in_window(gradients_[gradient_]);
        operand.partial = partial();
        return operand;
      }
      case Role::kTokens:
        return batch(tokens_);
      case Role::kTargets:
        return batch(targets_);
      case Role::kLoss:
        return OwnLeaf(0);
      case Role::kScalars:
        return Whole(scalars_, formal.bytes);
      case Role::kConstants:
        return Whole(constants_[formal.index], formal.bytes);
      default:
        return {};  // no such slot: the layout refuses it by name
    }
  }

  // --- Gradients on their way home.

  // The loss (column 0) and the sets' norms of this rank; the loss is on the device.
  Operand OwnLeaf(int64_t column) const {
    Operand leaf{.slot = column == 0 ? loss_ : leaves_, .offset = column * 8, .bytes = 8};
    if (options_.data > 1) {
      leaf.shard_group = Group::kData;
      leaf.shard_stride = leaves_bytes() / options_.data;
    }
    return leaf;
  }

  void Sum(Operand to, const Operand& from, const std::string& label) {
    to.access = Access::kAccumulate;
    assembler_.CallOp({.kind = OpKind::kAdd, .ints = {to.bytes / 4}, .flops = to.bytes / 4.0},
                      Purpose::kCombine, label, {to, from}, state_->update_stream());
  }

  void Norm(int set, const Operand& gradient) {
    Operand leaf = OwnLeaf(1 + set);
    leaf.access = Access::kWrite;
    assembler_.CallOp(
        {.kind = OpKind::kSumSquares, .ints = {gradient.bytes / 4}, .flops = gradient.bytes / 2.0},
        Purpose::kNorm, absl::StrCat("norm ", graph_.sets[set].name), {gradient, leaf},
        state_->update_stream());
  }

  // Additions that must not hold up the backward of the next layer are issued after it.
  void AddPendingSums() {
    for (const auto& [set, piece] : pending_) {
      Sum(Whole(gradient_home_[set], state_->home_bytes(set)), piece,
          absl::StrCat("add gradient of ", graph_.sets[set].name));
    }
    pending_.clear();
  }

  void MoveGradient(int set, const Operand& gradient, int64_t micro) {
    const std::string& name = graph_.sets[set].name;
    const std::string label = absl::StrCat("gradient of ", name, " micro ", micro);
    const bool first = gradient_home_[set] < 0, last = --contributions_[set] == 0;
    if (first) {
      gradient_home_[set] = assembler_.AddTransient(Slot{.name = absl::StrCat("gradient of ", name),
                                                         .tier = state_->home_tier(),
                                                         .klass = SlotClass::kGradients,
                                                         .bytes = state_->home_bytes(set),
                                                         .alignment = state_->home_alignment()});
    }
    if (options_.home == Home::kSsd) {
      SpoolGradient(set, gradient, label, first, last);
      return;
    }
    Operand target = Whole(gradient_home_[set], state_->home_bytes(set));
    if (!first) {
      target.slot = assembler_.AddTransient(Slot{.name = absl::StrCat("piece of ", label),
                                                 .tier = state_->home_tier(),
                                                 .klass = SlotClass::kGradients,
                                                 .bytes = state_->home_bytes(set)});
      pending_.emplace_back(set, target);
    }
    if (options_.home == Home::kHost) {
      assembler_.Transfer(Stream::kEvict, Purpose::kStash, label, gradient, target);
    } else {
      assembler_.Collective(
          {.op = CollectiveOp::kReduceScatter, .group = Group::kData, .bytes = target.bytes},
          Purpose::kReduce, Stream::kGradients, absl::StrCat("reduce ", label), gradient, target,
          options_.scratch);
    }
  }

  void SpoolGradient(int set, const Operand& gradient, const std::string& label, bool first,
                     bool last) {
    const Operand home = Whole(gradient_home_[set], state_->home_bytes(set));
    const Operand slab = state_->NextSlab(gradient.bytes);
    assembler_.Transfer(Stream::kEvict, Purpose::kStash, label, gradient, slab);
    if (!first) {
      const Operand before = state_->NextSlab(gradient.bytes);
      assembler_.Transfer(Stream::kSsdRead, Purpose::kFetch, absl::StrCat("read ", label), home,
                          before);
      Sum(slab, before, absl::StrCat("add ", label));
    }
    if (last) Norm(set, slab);
    if (last && options_.policy == UpdatePolicy::kSpeculative) {
      state_->UpdateThroughSlabs(set, slab, {});
    } else {
      assembler_.Transfer(Stream::kSsdWrite, Purpose::kStash, absl::StrCat("write ", label), slab,
                          home);
    }
  }

  // --- The update.

  void Finish() {
    const int64_t columns = options_.train ? sets() : 0;
    if (state_->on_host()) {
      assembler_.Transfer(Stream::kEvict, Purpose::kReport, "loss to the host", OwnLeaf(0),
                          Whole(leaves_, 8));
    }
    if (options_.train && options_.home != Home::kSsd) {
      for (int s = 0; s < sets(); ++s) Norm(s, Whole(gradient_home_[s], state_->home_bytes(s)));
    }
    if (options_.data > 1) {
      Operand own = OwnLeaf(0);
      own.bytes = own.shard_stride;
      assembler_.Collective({.op = CollectiveOp::kAllGather,
                             .group = Group::kData,
                             .dtype = DType::kF64,
                             .bytes = own.bytes},
                            Purpose::kReduce, Stream::kGradients, "gather losses and norms", own,
                            Whole(leaves_, leaves_bytes()), options_.scratch);
    }
    assembler_.CallOp({.kind = OpKind::kFinishStep,
                       .ints = {options_.data, columns},
                       .floats = {options_.gradient_clip}},
                      Purpose::kNorm, "finish",
                      {Whole(leaves_, leaves_bytes()),
                       {.slot = result_.scalars, .bytes = ScalarOffset(Scalar::kLoss)},
                       {.slot = result_.scalars,
                        .offset = ScalarOffset(Scalar::kLoss),
                        .bytes = columns > 0 ? 40 : 8,
                        .access = Access::kWrite}},
                      state_->update_stream());
  }

  void Update() {
    for (int s = 0; s < sets(); ++s) {
      if (options_.policy == UpdatePolicy::kSpeculative) {
        state_->FixUp(s);
      } else if (options_.policy == UpdatePolicy::kSpooled) {
        const size_t first = assembler_.program().instructions.size();
        const Operand slab = state_->NextSlab(state_->home_bytes(s));
        assembler_.Transfer(Stream::kSsdRead, Purpose::kFetch,
                            absl::StrCat("read gradient of ", graph_.sets[s].name),
                            Whole(gradient_home_[s], state_->home_bytes(s)), slab);
        state_->UpdateThroughSlabs(s, slab, Predicate{Scalar::kApply});
        assembler_.program().instructions[first].predicate = Predicate{Scalar::kApply};
      } else {
        state_->UpdateInPlace(s, Whole(gradient_home_[s], state_->home_bytes(s)));
      }
    }
  }

  LayerGraph graph_;
  const StreamedOptions& options_;
  ProgramSet result_;
  Assembler assembler_;
  std::optional<StreamedState> state_;
  std::vector<int> constants_, window_, gradients_;
  int64_t window_bytes_ = 0, batch_bytes_ = 0;
  int tokens_ = -1, targets_ = -1, leaves_ = -1, loss_ = -1, scalars_ = -1;
  std::vector<Use> uses_;
  std::vector<int> sequence_;  // layers of the uses that need parameters
  int place_ = -1;             // window slot of the present use
  int gradient_ = 0;           // gradient window of the present use
  std::vector<int> boundaries_;
  std::vector<std::vector<int>> saved_;
  int gradient_stream_ = -1;
  std::vector<int> gradient_home_;  // per set: slot; -1: no contribution yet
  std::vector<int> contributions_;  // per set: still to come
  std::vector<std::pair<int, Operand>> pending_;
};

}  // namespace

absl::StatusOr<ProgramSet> BuildStreamed(LayerGraph graph, const UpdateEmitter& update,
                                         const StreamedOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Builder(std::move(graph), options).Run(update);
}

}  // namespace strata::program
