#include "program/compose/decode.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/compose/assembler.h"
#include "program/compose/plan_sets.h"
#include "program/compose/plan_walk.h"
#include "program/compose/sources/parameters.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"
#include "program/compose/sources/transfers.h"
#include "program/compose/within_limit.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

// Layers [first, end) of the graph.
struct Part {
  int first = 0, end = 0;
};

std::vector<Part> PartsOf(const LayerGraph& graph, int stages) {
  std::vector<double> costs;
  for (const Layer& layer : graph.layers) {
    int64_t bytes = 0;
    for (const int set : layer.sets) bytes += graph.sets[set].bytes();
    costs.push_back(static_cast<double>(bytes));
  }
  const std::vector<int> assigned = BalancedVirtualStages(costs, stages);
  std::vector<Part> parts(stages);
  for (int l = 0; l < static_cast<int>(assigned.size()); ++l) parts[assigned[l]].end = l + 1;
  for (int stage = 1; stage < stages; ++stage) parts[stage].first = parts[stage - 1].end;
  return parts;
}

int64_t BytesOf(const Template& called, Role role) {
  for (const Formal& formal : called.formals) {
    if (formal.role == role) return formal.bytes;
  }
  return 0;
}

class Builder {
 public:
  Builder(const LayerGraph& graph, const DecodeOptions& options, int stage, Part part)
      : graph_(graph),
        stages_(options.stages),
        stage_(stage),
        part_(part),
        assembler_(result_.set, options.tier),
        plan_{.places = {.parameters = options.parameters},
              .streaming = options.streaming,
              .tier = options.tier},
        held_{graph_, plan_, sets_, {}, assembler_},
        transfers_(held_, TransfersOf::kPasses) {
    plan_.groups.pipeline = result_.set.groups.pipeline = stages_;
    result_.set.templates = graph_.templates;
  }

  absl::StatusOr<DecodePrograms> Run() {
    AddSlots();
    Build("prefill", &LayerTemplates::prefill);
    Build("decode", &LayerTemplates::decode);
    RETURN_IF_ERROR(LayOut(result_.set));
    return std::move(result_);
  }

 private:
  using Kind = int LayerTemplates::*;

  const Template& TemplateOf(int layer, Kind kind) const {
    return graph_.templates[graph_.layers[layer].templates.*kind];
  }
  bool IsFirst() const { return stage_ == 0; }
  bool IsLast() const { return stage_ + 1 == stages_; }

  void AddSlots() {
    DecodeSlots& slots = result_.slots;
    slots.scalars = result_.set.scalars =
        assembler_.AddPersistent(Slot{.name = "scalars",
                                      .tier = Tier::kHost,
                                      .klass = SlotClass::kScalars,
                                      .bytes = kScalarBytes});
    bool uses_constants = false;
    std::vector<bool> used(graph_.sets.size());
    for (int l = part_.first; l < part_.end; ++l) {
      for (const int set : graph_.layers[l].sets) used[set] = true;
      uses_constants |= BytesOf(TemplateOf(l, &LayerTemplates::decode), Role::kConstants) > 0;
    }
    for (const Constant& constant : graph_.constants) {
      slots.constants.push_back(
          uses_constants
              ? assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes)
              : -1);
    }
    AddParameters(used);
    for (int l = part_.first; l < part_.end; ++l) {
      const Layer& layer = graph_.layers[l];
      caches_.push_back(layer.cache_bytes == 0
                            ? -1
                            : assembler_.AddPersistent(absl::StrCat("cache of ", layer.name),
                                                       SlotClass::kCache, layer.cache_bytes));
    }
    const Template& head =
        TemplateOf(static_cast<int>(graph_.layers.size()) - 1, &LayerTemplates::prefill);
    slots.logits = assembler_.AddPersistent(
        Slot{.name = "logits",
             .tier = Tier::kHost,
             .klass = SlotClass::kActivations,
             .bytes = std::max(BytesOf(head, Role::kLogits), graph_.logits_bytes)});
  }

  void AddParameters(const std::vector<bool>& used) {
    std::vector<int64_t> bytes;
    for (size_t s = 0; s < graph_.sets.size(); ++s) {
      if (!used[s]) continue;
      sets_.sets.push_back({.index = static_cast<int>(s), .trainable = false});
      bytes.push_back(graph_.sets[s].bytes());
      result_.set.sets.push_back(graph_.sets[s]);
    }
    const std::vector<Home> homes = HomesOf(plan_.places.parameters, bytes);
    for (size_t s = 0; s < homes.size(); ++s) {
      sets_.sets[s].parameters = homes[s];
      if (homes[s] == Home::kSsd) slab_bytes_ = std::max(slab_bytes_, bytes[s]);
    }
    slab_bytes_ = std::min(slab_bytes_, kRangeBytes);
    state_.emplace(held_, nullptr);
    parameters_.emplace(held_, *state_, transfers_);
    for (size_t s = 0; s < homes.size(); ++s) {
      result_.slots.parameters.push_back(state_->slot(static_cast<int>(s)));
    }
  }

  // The calls of a program, for residency.
  std::vector<Use> UsesOf(Kind kind) const {
    std::vector<Use> uses;
    for (int l = part_.first; l < part_.end; ++l) {
      uses.push_back({.layer = l, .template_index = graph_.layers[l].templates.*kind});
    }
    return uses;
  }

  void Build(const std::string& name, Kind kind) {
    assembler_.BeginProgram(name);
    transfers_.Open(common::RoundUp(slab_bytes_, kSsdBlock));
    parameters_->Open(UsesOf(kind));
    Load(kind);
    int activation = IsFirst() ? -1 : Receive(kind);
    for (int l = part_.first; l < part_.end; ++l) {
      const Layer& layer = graph_.layers[l];
      const int input = activation;
      parameters_->Before(l - part_.first);
      assembler_.Call(layer.templates.*kind, Purpose::kForward,
                      absl::StrCat("forward ", layer.name), [&](const Formal& formal) {
                        if (formal.role == Role::kOutput) {
                          activation =
                              assembler_.AddTransient(absl::StrCat("activation after ", layer.name),
                                                      SlotClass::kActivations, formal.bytes);
                          return Whole(activation, formal.bytes);
                        }
                        return Bind(formal, l, input);
                      });
    }
    if (!IsLast()) Send(activation, kind);
    const int last = static_cast<int>(graph_.layers.size()) - 1;
    const int64_t bytes = BytesOf(TemplateOf(last, kind), Role::kLogits);
    Operand logits = Whole(result_.slots.logits, bytes);
    if (stages_ > 1) Broadcast(Whole(logits_, bytes));
    if (plan_.on_device()) {
      assembler_.Transfer(Stream::kEvict, Purpose::kReport, "logits to the host",
                          Whole(logits_, bytes), logits);
    }
    logits.access = Access::kRead;
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .stream = plan_.host_stream(),
                    .operands = {logits}});
  }

  // Every stage's layers look at the position; tokens are the first one's.
  void Load(Kind kind) {
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}},
                      plan_.host_stream());
    scalars_ = ToDevice("scalars", result_.slots.scalars, SlotClass::kScalars, kScalarBytes);
    logits_ = result_.slots.logits;
    if (plan_.on_device()) {
      logits_ = assembler_.AddTransient("logits on the device", SlotClass::kActivations,
                                        result_.set.slots[result_.slots.logits].bytes);
    }
    if (!IsFirst()) return;
    const int64_t bytes = BytesOf(TemplateOf(0, kind), Role::kTokens);
    const auto load = [&](const char* name) {
      return assembler_.AddTransient(
          Slot{.name = name, .tier = Tier::kHost, .klass = SlotClass::kBatch, .bytes = bytes});
    };
    tokens_ = load("tokens");
    const int targets = load("targets");
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {1, bytes / 4}}, Purpose::kLoad,
                      "load tokens",
                      {{.slot = tokens_, .bytes = bytes, .access = Access::kWrite},
                       {.slot = targets, .bytes = bytes, .access = Access::kWrite}},
                      plan_.host_stream());
    tokens_ = ToDevice("tokens", tokens_, SlotClass::kBatch, bytes);
  }

  // A copy where kernels compute, if that is another tier than the host.
  int ToDevice(const char* what, int slot, SlotClass klass, int64_t bytes) {
    if (!plan_.on_device()) return slot;
    const int there = assembler_.AddTransient(absl::StrCat(what, " on the device"), klass, bytes);
    assembler_.Transfer(Stream::kFetch, Purpose::kLoad, absl::StrCat(what, " to the device"),
                        Whole(slot, bytes), Whole(there, bytes));
    return there;
  }

  int Receive(Kind kind) {
    const int64_t bytes = BytesOf(TemplateOf(part_.first, kind), Role::kInput);
    const int slot =
        assembler_.AddTransient("received activation", SlotClass::kCommunication, bytes);
    AddMessage(Mechanism::kReceive, Stream::kReceive, -1,
               {.slot = slot, .bytes = bytes, .access = Access::kWrite});
    return slot;
  }

  void Send(int slot, Kind kind) {
    const int64_t bytes = BytesOf(TemplateOf(part_.end - 1, kind), Role::kOutput);
    AddMessage(Mechanism::kSend, Stream::kSend, 1,
               {.slot = slot, .bytes = bytes, .access = Access::kRead});
  }

  void AddMessage(Mechanism mechanism, Stream stream, int peer_offset, Operand what) {
    Instruction message{
        .mechanism = mechanism,
        .purpose = Purpose::kPipeline,
        .label = mechanism == Mechanism::kSend ? "send activation" : "receive activation",
        .stream = stream};
    message.communication = {
        .group = Group::kPipeline, .bytes = what.bytes, .peer_offset = peer_offset};
    message.operands = {what};
    assembler_.Add(std::move(message));
  }

  void Broadcast(Operand logits) {
    logits.access = IsLast() ? Access::kRead : Access::kWrite;
    Instruction broadcast{.mechanism = Mechanism::kCollective,
                          .purpose = Purpose::kPipeline,
                          .label = "broadcast logits",
                          .stream = Stream::kTensor};
    broadcast.communication = {.op = CollectiveOp::kBroadcast,
                               .group = Group::kPipeline,
                               .bytes = logits.bytes,
                               .root = stages_ - 1};
    broadcast.operands = {logits};
    assembler_.Add(std::move(broadcast));
  }

  int PositionOf(int layer, const Formal& formal) const {
    return static_cast<int>(sets_.Find(graph_.layers[layer].sets[formal.index]) -
                            sets_.sets.data());
  }

  Operand Bind(const Formal& formal, int layer, int input) const {
    switch (formal.role) {
      case Role::kInput:
        return Whole(input, formal.bytes);
      case Role::kParameters:
        return parameters_->Bind(layer - part_.first, PositionOf(layer, formal), formal.bytes);
      case Role::kConstants:
        return Whole(result_.slots.constants[formal.index], formal.bytes);
      case Role::kCache:
        return Whole(caches_[layer - part_.first], formal.bytes);
      case Role::kScalars:
        return Whole(scalars_, formal.bytes);
      case Role::kTokens:
        return Whole(tokens_, formal.bytes);
      case Role::kLogits:
        return Whole(logits_, formal.bytes);
      default:
        return {};  // no such slot: the layout refuses it by name
    }
  }

  const LayerGraph& graph_;
  const int stages_, stage_;
  const Part part_;
  DecodePrograms result_;
  Assembler assembler_;
  Plan plan_;       // what of it sources of parameters ask for
  StagePlan sets_;  // of this stage
  const Stage held_;
  Transfers transfers_;
  std::optional<State> state_;
  std::optional<Parameters> parameters_;
  int64_t slab_bytes_ = 0;
  std::vector<int> caches_;  // slots, per layer of the part
  // Of the program in progress, where kernels compute.
  int scalars_ = -1, logits_ = -1, tokens_ = -1;
};

// As ComposeStage does where a limit decides how many layers are resident.
absl::StatusOr<DecodePrograms> BuildStage(const LayerGraph& graph, const DecodeOptions& options,
                                          int stage, Part part) {
  const auto build = [&](int resident) {
    DecodeOptions streams = options;
    streams.streaming.resident = resident;
    return Builder(graph, streams, stage, part).Run();
  };
  const bool streams = options.parameters.beyond_device() && options.streaming.resident == 0;
  if (!streams || options.device_limit == 0) return build(options.streaming.resident);
  const auto fits = [&](int resident) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const DecodePrograms made, build(resident));
    return made.set.arena(Tier::kDevice) <= options.device_limit;
  };
  ASSIGN_OR_RETURN(const int resident, MostResident(part.end - part.first, fits));
  return build(resident);
}

}  // namespace

absl::StatusOr<std::vector<DecodePrograms>> BuildDecode(const LayerGraph& graph,
                                                        const DecodeOptions& options) {
  const int stages = options.stages;
  const int layers = static_cast<int>(graph.layers.size());
  if (stages < 1 || stages > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(stages, " stages for ", layers, " layers: each needs one of its own"));
  }
  if (options.parameters.unified > 0) {
    return absl::InvalidArgumentError("unified memory is for training: use host");
  }
  LayerGraph flat = graph;
  for (ParameterSet& set : flat.sets) FlattenSet(set, 1);
  const std::vector<Part> parts = PartsOf(flat, stages);
  std::vector<DecodePrograms> built;
  for (int stage = 0; stage < stages; ++stage) {
    ASSIGN_OR_RETURN(built.emplace_back(), BuildStage(flat, options, stage, parts[stage]));
  }
  return built;
}

}  // namespace strata::program
