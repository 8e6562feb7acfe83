#include "program/compose/decode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/compose/assembler.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

class Builder {
 public:
  Builder(LayerGraph graph, Tier tier) : graph_(std::move(graph)), assembler_(result_.set, tier) {
    for (ParameterSet& set : graph_.sets) FlattenSet(set, 1);
    result_.set.templates = graph_.templates;
    result_.set.sets = graph_.sets;
  }

  absl::StatusOr<DecodePrograms> Run() {
    DecodeSlots& slots = result_.slots;
    slots.scalars = result_.set.scalars =
        assembler_.AddPersistent("scalars", SlotClass::kScalars, kScalarBytes);
    for (const Constant& constant : graph_.constants) {
      slots.constants.push_back(
          assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes));
    }
    for (const ParameterSet& set : graph_.sets) {
      slots.parameters.push_back(
          assembler_.AddPersistent(set.name, SlotClass::kParameters, set.bytes()));
    }
    for (const Layer& layer : graph_.layers) {
      caches_.push_back(layer.cache_bytes == 0
                            ? -1
                            : assembler_.AddPersistent(absl::StrCat("cache of ", layer.name),
                                                       SlotClass::kCache, layer.cache_bytes));
    }
    int64_t logits_bytes = 0;
    for (const Formal& formal : graph_.templates[graph_.layers.back().templates.prefill].formals) {
      if (formal.role == Role::kLogits) logits_bytes = formal.bytes;
    }
    slots.logits = assembler_.AddPersistent("logits", SlotClass::kActivations,
                                            std::max(logits_bytes, graph_.logits_bytes));
    Build("prefill", [](const LayerTemplates& templates) { return templates.prefill; });
    Build("decode", [](const LayerTemplates& templates) { return templates.decode; });
    RETURN_IF_ERROR(LayOut(result_.set));
    return std::move(result_);
  }

 private:
  int64_t BytesOf(int template_index, Role role) const {
    for (const Formal& formal : graph_.templates[template_index].formals) {
      if (formal.role == role) return formal.bytes;
    }
    return 0;
  }

  template <typename Select>
  void Build(const std::string& name, Select select) {
    assembler_.BeginProgram(name);
    const int64_t tokens_bytes = BytesOf(select(graph_.layers.front().templates), Role::kTokens);
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, tokens_bytes);
    const int targets = assembler_.AddTransient("targets", SlotClass::kBatch, tokens_bytes);
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}});
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {1, tokens_bytes / 4}}, Purpose::kLoad,
                      "load tokens",
                      {{.slot = tokens_, .bytes = tokens_bytes, .access = Access::kWrite},
                       {.slot = targets, .bytes = tokens_bytes, .access = Access::kWrite}});
    int activation = -1;
    for (size_t l = 0; l < graph_.layers.size(); ++l) {
      const Layer& layer = graph_.layers[l];
      const int input = activation;
      assembler_.Call(select(layer.templates), Purpose::kForward,
                      absl::StrCat("forward ", layer.name), [&](const Formal& formal) {
                        if (formal.role == Role::kOutput) {
                          activation =
                              assembler_.AddTransient(absl::StrCat("activation after ", layer.name),
                                                      SlotClass::kActivations, formal.bytes);
                          return Whole(activation, formal.bytes);
                        }
                        return Bind(formal, layer, static_cast<int>(l), input);
                      });
    }
    assembler_.Add(
        {.mechanism = Mechanism::kSignal,
         .purpose = Purpose::kReport,
         .label = "report",
         .operands = {Whole(result_.slots.logits,
                            BytesOf(select(graph_.layers.back().templates), Role::kLogits))}});
  }

  Operand Bind(const Formal& formal, const Layer& layer, int index, int input) const {
    switch (formal.role) {
      case Role::kInput:
        return Whole(input, formal.bytes);
      case Role::kParameters:
        return Whole(result_.slots.parameters[layer.sets[formal.index]], formal.bytes);
      case Role::kConstants:
        return Whole(result_.slots.constants[formal.index], formal.bytes);
      case Role::kCache:
        return Whole(caches_[index], formal.bytes);
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

  LayerGraph graph_;
  DecodePrograms result_;
  Assembler assembler_;
  std::vector<int> caches_;
  int tokens_ = -1;
};

}  // namespace

absl::StatusOr<DecodePrograms> BuildDecode(LayerGraph graph, Tier tier) {
  return Builder(std::move(graph), tier).Run();
}

}  // namespace strata::program
