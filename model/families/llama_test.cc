#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/emit/check.h"
#include "model/families/families.h"
#include "model/flops.h"

namespace strata::model {
namespace {

using program::LayerGraph;
using program::OpKind;
using program::Role;
using program::Template;

ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.layers = 3;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 64;
  return spec;
}

EmitOptions SmallOptions() {
  EmitOptions options;
  options.micro_batch = 2;
  options.sequence = 32;
  options.prefill_chunk = 8;
  return options;
}

LayerGraph Emit(const ModelSpec& spec, const EmitOptions& options) {
  absl::StatusOr<LayerGraph> graph = EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

int CountOps(const Template& counted, OpKind kind) {
  int count = 0;
  for (const program::Op& op : counted.ops) count += op.kind == kind;
  return count;
}

bool HasFormal(const Template& searched, Role role, int index = 0) {
  for (const program::Formal& formal : searched.formals) {
    if (formal.role == role && formal.index == index) return true;
  }
  return false;
}

const Template& At(const LayerGraph& graph, int index) { return graph.templates.at(index); }

TEST(LlamaTest, EveryVariant_PassesItsStructuralChecks) {
  for (const bool tied : {false, true}) {
    for (const bool split : {false, true}) {
      for (const int64_t degree : {1, 2, 4}) {
        for (const int64_t chunk_rows : {0, 1, 7, 1000}) {
          ModelSpec spec = SmallSpec();
          spec.tied_embeddings = tied;
          EmitOptions options = SmallOptions();
          options.split_backward = split;
          options.tensor_degree = degree;
          options.head_chunk_rows = chunk_rows;
          const LayerGraph graph = Emit(spec, options);
          EXPECT_EQ(graph.layers.size(), 5u);
          EXPECT_EQ(graph.boundary_bytes, 2 * 32 * 48 * 4 / degree);
        }
      }
    }
  }
}

TEST(LlamaTest, Parameters_AreThoseOfTheModel) {
  ModelSpec spec = SmallSpec();
  const int64_t block = (8 + 2 * 4) * 6 * 48 + 48 * 48 + 3 * 48 * 100 + 2 * 48;
  EXPECT_EQ(Emit(spec, SmallOptions()).parameters(), 2 * 264 * 48 + 48 + 3 * block);
  spec.tied_embeddings = true;
  EXPECT_EQ(Emit(spec, SmallOptions()).parameters(), 264 * 48 + 48 + 3 * block);
}

TEST(LlamaTest, TensorNames_AreThoseOfHuggingFace) {
  std::set<std::string> names;
  for (const program::ParameterSet& set : Emit(SmallSpec(), SmallOptions()).sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      int64_t rows = 0;
      for (const program::TensorSpec::Part& part : tensor.parts) {
        names.insert(part.name);
        rows += part.rows;
      }
      if (tensor.parts.empty()) {
        names.insert(tensor.name);
      } else {
        EXPECT_EQ(rows, tensor.shape[0]) << tensor.name;
      }
      EXPECT_EQ(tensor.decay, tensor.shape.size() >= 2) << tensor.name;
    }
  }
  EXPECT_EQ(names.size(), 3u + 3 * 9);
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
        "model.layers.2.input_layernorm.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight",
        "model.layers.1.self_attn.o_proj.weight", "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight",
        "model.layers.1.post_attention_layernorm.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(LlamaTest, Flops_EqualTheClosedFormula) {
  const ModelSpec spec = SmallSpec();
  const LayerGraph graph = Emit(spec, SmallOptions());
  const double tokens = 2 * 32;
  const double products = 264 * 48 + 3.0 * ((8 + 2 * 4) * 6 * 48 + 48 * 48 + 3 * 48 * 100);
  const double attention = 3.0 * 8 * 6 * 32;  // L·H·D·T, per token; 2 × forward, 4 × backward
  const PassFlops flops = CountTraining(graph);
  EXPECT_DOUBLE_EQ(flops.model(), tokens * (6 * products + 6 * attention));
  EXPECT_DOUBLE_EQ(flops.recomputed, tokens * attention);
  EXPECT_DOUBLE_EQ(CountEvaluation(graph), tokens * (2 * products + 2 * attention));
}

TEST(LlamaTest, FlopsOfSplitBackward_AreThoseOfTheWhole) {
  EmitOptions options = SmallOptions();
  options.split_backward = true;
  const LayerGraph graph = Emit(SmallSpec(), options);
  const program::LayerTemplates& block = graph.layers[1].templates;
  EXPECT_DOUBLE_EQ(At(graph, block.backward).flops(), At(graph, block.backward_input).flops() +
                                                          At(graph, block.backward_weight).flops());
}

TEST(LlamaTest, FlopsOfTensorRanks_AddUpToTheWhole) {
  EmitOptions options = SmallOptions();
  const double whole = CountTraining(Emit(SmallSpec(), options)).executed();
  options.tensor_degree = 4;
  EXPECT_DOUBLE_EQ(4 * CountTraining(Emit(SmallSpec(), options)).executed(), whole);
}

TEST(LlamaTest, HeadChunks_CoverTheRowsWithoutASmallLastOne) {
  EmitOptions options = SmallOptions();
  options.head_chunk_rows = 48;
  const LayerGraph graph = Emit(SmallSpec(), options);
  const Template& head = At(graph, graph.layers.back().templates.backward);
  std::vector<int64_t> rows;
  for (const program::Op& op : head.ops) {
    if (op.kind == OpKind::kCrossEntropy) rows.push_back(op.ints[0]);
  }
  EXPECT_THAT(rows, testing::ElementsAre(32, 32));
}

TEST(LlamaTest, HeadChunks_AreAsManyRowsAsTheDeviceMultipliesWhileItReadsTheGradient) {
  ModelSpec spec = SmallSpec();
  spec.vocab = 50304;
  spec.context = 1024;
  for (const auto& [backend, rows] :
       {std::pair{ops::BackendKind::kCpu, 256}, std::pair{ops::BackendKind::kCuda, 4096}}) {
    EmitOptions options = SmallOptions();
    options.micro_batch = 8;
    options.sequence = 1024;
    options.backend = backend;
    options.type = program::DType::kBF16;
    const LayerGraph graph = Emit(spec, options);
    int64_t sum = 0;
    for (const program::Op& op : At(graph, graph.layers.back().templates.backward).ops) {
      if (op.kind != OpKind::kCrossEntropy) continue;
      EXPECT_EQ(op.ints[0], rows);
      sum += op.ints[0];
    }
    EXPECT_EQ(sum, 8192);
  }
}

TEST(LlamaTest, TiedHead_UsesTheEmbeddingsSet) {
  ModelSpec spec = SmallSpec();
  spec.tied_embeddings = true;
  const LayerGraph graph = Emit(spec, SmallOptions());
  EXPECT_EQ(graph.layers.back().sets[1], graph.layers.front().sets[0]);
}

TEST(LlamaTest, Evaluate_SavesNothing) {
  const LayerGraph graph = Emit(SmallSpec(), SmallOptions());
  const Template& block = At(graph, graph.layers[1].templates.evaluate);
  for (int index = 0; index < 8; ++index) EXPECT_FALSE(HasFormal(block, Role::kSaved, index));
}

TEST(LlamaTest, Decode_ReadsPositionAndKeepsACache) {
  const LayerGraph graph = Emit(SmallSpec(), SmallOptions());
  EXPECT_EQ(graph.layers[1].cache_bytes, 2 * 64 * 4 * 6 * 4);
  for (const int index : {graph.layers[1].templates.prefill, graph.layers[1].templates.decode}) {
    EXPECT_TRUE(HasFormal(At(graph, index), Role::kCache));
    EXPECT_TRUE(HasFormal(At(graph, index), Role::kScalars));
    EXPECT_EQ(CountOps(At(graph, index), OpKind::kAttentionDecode), 1);
  }
  EXPECT_EQ(graph.logits_bytes, 264 * 4);
}

TEST(LlamaTest, TensorParallelProducts_OverlapWithTheNextChunksGather) {
  EmitOptions options = SmallOptions();
  options.tensor_degree = 2;
  const LayerGraph graph = Emit(SmallSpec(), options);
  const Template& forward = At(graph, graph.layers[1].templates.forward);
  // Gathers for qkv and gate_up, reductions for o and down, in 4 chunks each.
  EXPECT_EQ(CountOps(forward, OpKind::kCollective), 16);
  // The first gather waits for the norm, the second for nothing more, the third for the first
  // product, whose buffer it takes.
  std::vector<std::vector<OpKind>> awaited;
  for (const program::Op& op : forward.ops) {
    if (op.kind != OpKind::kCollective) continue;
    awaited.emplace_back();
    for (const int dependency : op.dependencies) {
      awaited.back().push_back(forward.ops[dependency].kind);
    }
  }
  EXPECT_THAT(awaited[0], testing::ElementsAre(OpKind::kRmsNormForward));
  EXPECT_THAT(awaited[1], testing::IsEmpty());
  EXPECT_THAT(awaited[2], testing::ElementsAre(OpKind::kMatMul));
}

TEST(LlamaTest, TensorParallelNormGradients_AreMarkedPartial) {
  EmitOptions options = SmallOptions();
  options.tensor_degree = 2;
  const LayerGraph graph = Emit(SmallSpec(), options);
  const Template& backward = At(graph, graph.layers[1].templates.backward);
  int marked = 0;
  for (const program::Op& op : backward.ops) {
    for (const program::Operand& operand : op.operands) {
      if (operand.slot >= static_cast<int>(backward.formals.size())) continue;
      if (backward.formals[operand.slot].role != Role::kGradients) continue;
      const bool norms = backward.formals[operand.slot].index == 1;
      EXPECT_EQ(operand.partial, norms ? program::PartialOver(program::Group::kTensor) : 0u);
      marked += norms;
    }
  }
  EXPECT_EQ(marked, 2);
}

TEST(LlamaTest, ImpossibleShapes_AreRefused) {
  ModelSpec odd = SmallSpec();
  odd.head_size = 5;
  EXPECT_EQ(EmitFamily(odd, SmallOptions()).status().code(), absl::StatusCode::kInvalidArgument);
  ModelSpec groups = SmallSpec();
  groups.kv_heads = 3;
  EXPECT_EQ(EmitFamily(groups, SmallOptions()).status().code(), absl::StatusCode::kInvalidArgument);
  EmitOptions options = SmallOptions();
  options.sequence = 65;
  EXPECT_EQ(EmitFamily(SmallSpec(), options).status().code(), absl::StatusCode::kInvalidArgument);
  options = SmallOptions();
  options.tensor_degree = 3;
  EXPECT_EQ(EmitFamily(SmallSpec(), options).status().code(), absl::StatusCode::kInvalidArgument);
}

// The checks themselves find what they are for.
class DamagedGraphTest : public testing::Test {
 protected:
  LayerGraph graph_ = Emit(SmallSpec(), SmallOptions());
  Template& forward() { return graph_.templates[graph_.layers[1].templates.forward]; }
};

TEST_F(DamagedGraphTest, LocalNeverWritten_IsFound) {
  forward().ops.erase(forward().ops.begin());
  EXPECT_THAT(std::string(CheckGraph(graph_).message()),
              testing::HasSubstr("read before it is written"));
}

TEST_F(DamagedGraphTest, OperandBeyondItsSlot_IsFound) {
  forward().ops[1].operands[1].offset += 1 << 20;
  EXPECT_THAT(std::string(CheckGraph(graph_).message()), testing::HasSubstr("leaves its slot"));
}

TEST_F(DamagedGraphTest, SavedButNotWritten_IsFound) {
  std::erase_if(forward().ops, [](const program::Op& op) {
    return op.kind == OpKind::kAttentionForward || op.kind == OpKind::kRope;
  });
  EXPECT_FALSE(CheckGraph(graph_).ok());
}

TEST_F(DamagedGraphTest, LostDependency_IsFound) {
  EmitOptions options = SmallOptions();
  options.tensor_degree = 2;
  const LayerGraph whole = Emit(SmallSpec(), options);
  int lost = 0;
  for (const int index : {whole.layers[1].templates.forward, whole.layers[1].templates.backward,
                          whole.layers.back().templates.backward}) {
    for (size_t op = 0; op < At(whole, index).ops.size(); ++op) {
      graph_ = whole;
      std::vector<int>& dependencies = graph_.templates[index].ops[op].dependencies;
      if (dependencies.empty()) continue;
      dependencies.clear();
      EXPECT_THAT(std::string(CheckGraph(graph_).message()),
                  testing::HasSubstr("uses the same bytes"))
          << index << " op " << op;
      ++lost;
    }
  }
  EXPECT_GT(lost, 20);
}

TEST_F(DamagedGraphTest, OperandThatIsNotAsItsOpSays_IsFound) {
  forward().ops[1].operands[1].access = program::Access::kWrite;
  EXPECT_THAT(std::string(CheckGraph(graph_).message()),
              testing::HasSubstr("b has access write, not read"));
}

TEST_F(DamagedGraphTest, WriteToParameters_IsFound) {
  const int parameters = forward().ops[1].operands[1].slot;
  forward().ops.push_back(
      {.kind = OpKind::kZero,
       .operands = {{.slot = parameters, .bytes = 64, .access = program::Access::kWrite}},
       .ints = {64}});
  EXPECT_THAT(std::string(CheckGraph(graph_).message()), testing::HasSubstr("write of weights"));
}

}  // namespace
}  // namespace strata::model
