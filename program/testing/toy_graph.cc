#include "program/testing/toy_graph.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

using toy::kBoundary;

// Builds a template whose ops touch their operands in the given ways.
class Maker {
 public:
  explicit Maker(std::string name) { result_.name = std::move(name); }

  Operand Bind(Role role, int64_t bytes, Access access, int index = 0) {
    for (size_t f = 0; f < result_.formals.size(); ++f) {
      if (result_.formals[f].role == role && result_.formals[f].index == index) {
        return {.slot = static_cast<int>(f), .bytes = bytes, .access = access};
      }
    }
    result_.formals.push_back(
        {.name = absl::StrCat(Name(role), index), .role = role, .index = index, .bytes = bytes});
    return {.slot = static_cast<int>(result_.formals.size()) - 1, .bytes = bytes, .access = access};
  }
  Operand Read(Role role, int64_t bytes, int index = 0) {
    return Bind(role, bytes, Access::kRead, index);
  }
  Operand Write(Role role, int64_t bytes, int index = 0) {
    return Bind(role, bytes, Access::kWrite, index);
  }
  Operand Accumulate(Role role, int64_t bytes, int index = 0) {
    return Bind(role, bytes, Access::kAccumulate, index);
  }

  Maker& Then(OpKind kind, std::vector<Operand> operands, double flops = 0) {
    pending_.push_back({.kind = kind, .operands = std::move(operands), .flops = flops});
    return *this;
  }
  // The placeholder of local `index`; fixed up by Finish, when the number of formals is known.
  Operand Local(int index, int64_t bytes, Access access) {
    while (static_cast<int>(result_.locals.size()) <= index) {
      result_.locals.push_back(
          {.name = absl::StrCat("local ", result_.locals.size()), .klass = SlotClass::kWorkspace});
    }
    result_.locals[index].bytes = bytes;
    return {.slot = -2 - index, .bytes = bytes, .access = access};
  }
  Template Finish() {
    for (Op& op : pending_) {
      for (Operand& operand : op.operands) {
        if (operand.slot < -1) operand.slot = result_.slot_of_local(-2 - operand.slot);
      }
    }
    result_.ops = std::move(pending_);
    return std::move(result_);
  }

 private:
  Template result_;
  std::vector<Op> pending_;
};

int Add(LayerGraph& graph, Template tmpl) {
  graph.templates.push_back(std::move(tmpl));
  return static_cast<int>(graph.templates.size()) - 1;
}

constexpr double kFlops = 1e6;  // of a block's forward

LayerTemplates EmbeddingTemplates(LayerGraph& graph, int64_t token_bytes) {
  LayerTemplates templates;
  const auto forward = [&](const std::string& name, int64_t tokens, int64_t boundary) {
    Maker maker(name);
    maker.Then(OpKind::kEmbeddingForward,
               {maker.Read(Role::kTokens, tokens), maker.Read(Role::kParameters, toy::kTableSet),
                maker.Write(Role::kOutput, boundary)});
    return Add(graph, maker.Finish());
  };
  templates.forward = templates.evaluate = templates.prefill =
      forward("embedding forward", token_bytes, kBoundary);
  templates.decode = forward("embedding decode", 4, 64);
  Maker backward("embedding backward");
  backward.Then(
      OpKind::kEmbeddingBackward,
      {backward.Read(Role::kTokens, token_bytes), backward.Read(Role::kGradientStream, kBoundary),
       backward.Accumulate(Role::kGradients, toy::kTableSet)});
  templates.backward = Add(graph, backward.Finish());
  Maker weight("embedding backward-weight");
  weight.Then(OpKind::kEmbeddingBackward, {weight.Read(Role::kTokens, token_bytes),
                                           weight.Read(Role::kOutputGradient, kBoundary),
                                           weight.Accumulate(Role::kGradients, toy::kTableSet)});
  templates.backward_weight = Add(graph, weight.Finish());
  return templates;
}

int BlockForward(LayerGraph& graph, bool saves) {
  Maker maker(saves ? "block forward" : "block evaluate");
  maker.Then(
      OpKind::kMatMul,
      {maker.Read(Role::kInput, kBoundary), maker.Read(Role::kParameters, toy::kBlockSet),
       saves ? maker.Write(Role::kSaved, toy::kSaved) : maker.Local(1, toy::kSaved, Access::kWrite),
       maker.Local(0, toy::kForwardLocal, Access::kWrite)},
      kFlops);
  maker.Then(OpKind::kAdd,
             {maker.Write(Role::kOutput, kBoundary), maker.Read(Role::kInput, kBoundary),
              maker.Local(0, toy::kForwardLocal, Access::kRead)});
  return Add(graph, maker.Finish());
}

LayerTemplates BlockTemplates(LayerGraph& graph) {
  LayerTemplates templates;
  templates.forward = BlockForward(graph, true);
  templates.evaluate = BlockForward(graph, false);
  Maker backward("block backward");
  backward.Then(
      OpKind::kMatMul,
      {backward.Read(Role::kParameters, toy::kBlockSet), backward.Read(Role::kSaved, toy::kSaved),
       backward.Local(0, toy::kBackwardLocal, Access::kWrite)},
      kFlops);
  backward.Then(OpKind::kMatMul,
                {backward.Read(Role::kInput, kBoundary),
                 backward.Local(0, toy::kBackwardLocal, Access::kRead),
                 backward.Accumulate(Role::kGradients, toy::kBlockSet),
                 backward.Accumulate(Role::kGradientStream, kBoundary)},
                kFlops);
  templates.backward = Add(graph, backward.Finish());
  Maker input("block backward-input");
  input.Then(OpKind::kMatMul,
             {input.Read(Role::kParameters, toy::kBlockSet), input.Read(Role::kSaved, toy::kSaved),
              input.Read(Role::kOutputGradient, kBoundary),
              input.Local(0, toy::kBackwardLocal, Access::kWrite)},
             kFlops);
  input.Then(OpKind::kAdd, {input.Local(0, toy::kBackwardLocal, Access::kRead),
                            input.Write(Role::kStash, toy::kStash),
                            input.Write(Role::kInputGradient, kBoundary)});
  templates.backward_input = Add(graph, input.Finish());
  Maker weight("block backward-weight");
  weight.Then(
      OpKind::kMatMul,
      {weight.Read(Role::kInput, kBoundary), weight.Read(Role::kOutputGradient, kBoundary),
       weight.Read(Role::kStash, toy::kStash), weight.Accumulate(Role::kGradients, toy::kBlockSet)},
      kFlops);
  templates.backward_weight = Add(graph, weight.Finish());
  const auto decode = [&](const std::string& name, int64_t boundary) {
    Maker maker(name);
    maker.Then(
        OpKind::kAttentionDecode,
        {maker.Read(Role::kInput, boundary), maker.Read(Role::kParameters, toy::kBlockSet),
         maker.Accumulate(Role::kCache, toy::kCache), maker.Read(Role::kScalars, kScalarBytes),
         maker.Write(Role::kOutput, boundary), maker.Local(0, toy::kForwardLocal, Access::kWrite)},
        kFlops);
    return Add(graph, maker.Finish());
  };
  templates.prefill = decode("block prefill", kBoundary);
  templates.decode = decode("block decode", 64);
  return templates;
}

LayerTemplates HeadTemplates(LayerGraph& graph, int64_t token_bytes) {
  LayerTemplates templates;
  const auto backward = [&](const std::string& name, Role gradient) {
    Maker maker(name);
    maker.Then(
        OpKind::kMatMul,
        {maker.Read(Role::kInput, kBoundary), maker.Read(Role::kParameters, toy::kNormSet, 0),
         maker.Read(Role::kParameters, toy::kTableSet, 1),
         maker.Local(0, toy::kLogits, Access::kWrite)},
        kFlops);
    maker.Then(
        OpKind::kCrossEntropy,
        {maker.Local(0, toy::kLogits, Access::kAccumulate), maker.Read(Role::kTargets, token_bytes),
         maker.Read(Role::kScalars, kScalarBytes), maker.Accumulate(Role::kLoss, 8)});
    maker.Then(OpKind::kMatMul,
               {maker.Local(0, toy::kLogits, Access::kRead), maker.Write(gradient, kBoundary),
                maker.Accumulate(Role::kGradients, toy::kNormSet, 0),
                maker.Accumulate(Role::kGradients, toy::kTableSet, 1)},
               2 * kFlops);
    return Add(graph, maker.Finish());
  };
  templates.backward = backward("head backward", Role::kGradientStream);
  templates.backward_input = backward("head backward-input", Role::kInputGradient);
  Maker evaluate("head evaluate");
  evaluate.Then(
      OpKind::kCrossEntropyLoss,
      {evaluate.Read(Role::kInput, kBoundary), evaluate.Read(Role::kParameters, toy::kNormSet, 0),
       evaluate.Read(Role::kParameters, toy::kTableSet, 1),
       evaluate.Read(Role::kTargets, token_bytes), evaluate.Accumulate(Role::kLoss, 8)},
      kFlops);
  templates.evaluate = Add(graph, evaluate.Finish());
  const auto decode = [&](const std::string& name, int64_t boundary) {
    Maker maker(name);
    maker.Then(OpKind::kMatMul,
               {maker.Read(Role::kInput, boundary), maker.Read(Role::kParameters, toy::kNormSet, 0),
                maker.Read(Role::kParameters, toy::kTableSet, 1),
                maker.Write(Role::kLogits, toy::kLogits)},
               kFlops);
    return Add(graph, maker.Finish());
  };
  templates.prefill = decode("head prefill", kBoundary);
  templates.decode = decode("head decode", 64);
  return templates;
}

ParameterSet Set(const std::string& name, int64_t bytes) {
  ParameterSet set{.name = name};
  set.tensors.push_back({.name = absl::StrCat(name, ".weight"), .shape = {bytes / 4 / 64, 64}});
  return set;
}

}  // namespace

LayerGraph ToyGraph(const ToyOptions& options) {
  LayerGraph graph;
  graph.micro_batch = options.micro_batch;
  graph.sequence = options.sequence;
  graph.boundary_bytes = kBoundary;
  graph.logits_bytes = toy::kLogits;
  const int64_t token_bytes = graph.tokens() * 4;
  graph.sets.push_back(Set("table", toy::kTableSet));
  graph.layers.push_back(
      {.name = "embedding", .templates = EmbeddingTemplates(graph, token_bytes), .sets = {0}});
  const LayerTemplates block = BlockTemplates(graph);
  for (int b = 0; b < options.blocks; ++b) {
    graph.sets.push_back(Set(absl::StrCat("block ", b), toy::kBlockSet));
    graph.layers.push_back({.name = absl::StrCat("block ", b),
                            .templates = block,
                            .sets = {static_cast<int>(graph.sets.size()) - 1},
                            .cache_bytes = toy::kCache});
  }
  graph.sets.push_back(Set("norm", toy::kNormSet));
  graph.sets.back().tensors.front().shape = {toy::kNormSet / 4};
  const int norm = static_cast<int>(graph.sets.size()) - 1;
  int table = 0;
  if (!options.tied) {
    graph.sets.push_back(Set("head", toy::kTableSet));
    table = norm + 1;
  }
  graph.layers.push_back(
      {.name = "head", .templates = HeadTemplates(graph, token_bytes), .sets = {norm, table}});
  return graph;
}

Template ToyUpdate(const ParameterSet& set, const program::UpdateRange& range) {
  Maker maker(absl::StrCat("update ", set.name));
  const int64_t bytes = range.count * 4;
  maker.Then(OpKind::kAdamW,
             {maker.Read(Role::kParameters, bytes, 0), maker.Read(Role::kState, bytes, 0),
              maker.Read(Role::kState, bytes, 1), maker.Read(Role::kGradients, bytes),
              maker.Read(Role::kScalars, kScalarBytes), maker.Write(Role::kParameters, bytes, 1),
              maker.Write(Role::kState, bytes, 2), maker.Write(Role::kState, bytes, 3)},
             static_cast<double>(12 * range.count));
  return maker.Finish();
}

int64_t ToyScratch(CollectiveOp op, DType, int64_t bytes, int group_size) {
  switch (op) {
    case CollectiveOp::kReduceScatter:
      return bytes * (group_size - 1);
    case CollectiveOp::kAllReduce:
      return bytes / group_size * (group_size - 1);
    default:
      return 0;
  }
}

}  // namespace strata::program
