#include "program/compose/decode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/compose/assembler.h"
#include "program/compose/plan_walk.h"
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
  Builder(const LayerGraph& graph, Tier tier, int stages, int stage, Part part)
      : graph_(graph),
        stages_(stages),
        stage_(stage),
        part_(part),
        assembler_(result_.set, tier),
        parameters_(graph.sets.size(), -1) {
    result_.set.groups.pipeline = stages;
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
        assembler_.AddPersistent("scalars", SlotClass::kScalars, kScalarBytes);
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
    for (size_t s = 0; s < graph_.sets.size(); ++s) {
      if (!used[s]) continue;
      const ParameterSet& set = graph_.sets[s];
      parameters_[s] = assembler_.AddPersistent(set.name, SlotClass::kParameters, set.bytes());
      slots.parameters.push_back(parameters_[s]);
      result_.set.sets.push_back(set);
    }
    for (int l = part_.first; l < part_.end; ++l) {
      const Layer& layer = graph_.layers[l];
      caches_.push_back(layer.cache_bytes == 0
                            ? -1
                            : assembler_.AddPersistent(absl::StrCat("cache of ", layer.name),
                                                       SlotClass::kCache, layer.cache_bytes));
    }
    const Template& head =
        TemplateOf(static_cast<int>(graph_.layers.size()) - 1, &LayerTemplates::prefill);
    slots.logits =
        assembler_.AddPersistent("logits", SlotClass::kActivations,
                                 std::max(BytesOf(head, Role::kLogits), graph_.logits_bytes));
  }

  void Build(const std::string& name, Kind kind) {
    assembler_.BeginProgram(name);
    Load(kind);
    int activation = IsFirst() ? -1 : Receive(kind);
    for (int l = part_.first; l < part_.end; ++l) {
      const Layer& layer = graph_.layers[l];
      const int input = activation;
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
    Operand logits = Whole(result_.slots.logits, BytesOf(TemplateOf(last, kind), Role::kLogits));
    if (stages_ > 1) Broadcast(logits);
    logits.access = Access::kRead;
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .operands = {logits}});
  }

  // Every stage's layers look at the position; tokens are the first one's.
  void Load(Kind kind) {
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}});
    if (!IsFirst()) return;
    const int64_t bytes = BytesOf(TemplateOf(0, kind), Role::kTokens);
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, bytes);
    const int targets = assembler_.AddTransient("targets", SlotClass::kBatch, bytes);
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {1, bytes / 4}}, Purpose::kLoad,
                      "load tokens",
                      {{.slot = tokens_, .bytes = bytes, .access = Access::kWrite},
                       {.slot = targets, .bytes = bytes, .access = Access::kWrite}});
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

  Operand Bind(const Formal& formal, int layer, int input) const {
    switch (formal.role) {
      case Role::kInput:
        return Whole(input, formal.bytes);
      case Role::kParameters:
        return Whole(parameters_[graph_.layers[layer].sets[formal.index]], formal.bytes);
      case Role::kConstants:
        return Whole(result_.slots.constants[formal.index], formal.bytes);
      case Role::kCache:
        return Whole(caches_[layer - part_.first], formal.bytes);
      case Role::kScalars:
        return Whole(result_.slots.scalars, formal.bytes);
      case Role::kTokens:
        return Whole(tokens_, formal.bytes);
      case Role::kLogits:
        return Whole(result_.slots.logits, formal.bytes);
      default:
        return {};  // no such slot: the layout refuses it by name
    }
  }

  const LayerGraph& graph_;
  const int stages_, stage_;
  const Part part_;
  DecodePrograms result_;
  Assembler assembler_;
  std::vector<int> parameters_;  // slots, per set of the graph; -1: not of this stage
  std::vector<int> caches_;      // slots, per layer of the part
  int tokens_ = -1;
};

}  // namespace

absl::StatusOr<std::vector<DecodePrograms>> BuildDecode(const LayerGraph& graph, Tier tier,
                                                        int stages) {
  const int layers = static_cast<int>(graph.layers.size());
  if (stages < 1 || stages > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(stages, " stages for ", layers, " layers: each needs one of its own"));
  }
  LayerGraph flat = graph;
  for (ParameterSet& set : flat.sets) FlattenSet(set, 1);
  const std::vector<Part> parts = PartsOf(flat, stages);
  std::vector<DecodePrograms> built;
  for (int stage = 0; stage < stages; ++stage) {
    ASSIGN_OR_RETURN(built.emplace_back(), Builder(flat, tier, stages, stage, parts[stage]).Run());
  }
  return built;
}

}  // namespace strata::program
