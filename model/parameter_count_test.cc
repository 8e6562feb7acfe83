#include "model/parameter_count.h"

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/family_defaults.h"

namespace strata::model {
namespace {

ModelSpec Small() {
  return {.layers = 3,
          .hidden = 24,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 6,
          .ffn = 40,
          .vocab = 50,
          .context = 16};
}

double Emitted(const ModelSpec& spec) {
  const auto graph = EmitFamily(spec, {.micro_batch = 1, .sequence = 8});
  EXPECT_TRUE(graph.ok()) << graph.status();
  double count = 0;
  for (const program::ParameterSet& set : graph->sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      double elements = 1;
      for (const int64_t size : tensor.shape) elements *= static_cast<double>(size);
      count += elements;
    }
  }
  return count;
}

TEST(ParameterCount, OfLlamaIsWhatTheTemplatesDeclare) {
  ModelSpec spec = Small();
  EXPECT_EQ(ParameterCount(spec), Emitted(spec));
  spec.tied_embeddings = true;
  EXPECT_EQ(ParameterCount(spec), Emitted(spec));
}

TEST(ParameterCount, OfEveryFamilyIsWhatTheTemplatesDeclare) {
  for (const Family family : AllFamilies()) {
    ModelSpec spec = DefaultsOf(family);
    spec.layers = 3;
    spec.hidden = 24;
    spec.heads = spec.kv_heads = 4;
    spec.head_size = 6;
    spec.ffn = 40;
    spec.vocab = 50;
    spec.context = 16;
    EXPECT_EQ(ParameterCount(spec), Emitted(spec)) << static_cast<int>(family);
    spec.tied_embeddings = !spec.tied_embeddings;
    spec.attention_bias = spec.output_bias = spec.feed_forward_bias = true;
    EXPECT_EQ(ParameterCount(spec), Emitted(spec)) << static_cast<int>(family);
  }
}

TEST(ParameterCount, OfPublishedModelsIsTheirFigure) {
  // Llama 3.1 405B: 405,853,388,800; GPT-2: 124,439,808; Qwen2.5-0.5B: 494,032,768; Qwen3-0.6B:
  // 596,049,920 (the sums of the shapes in their files).
  EXPECT_EQ(ParameterCount({.layers = 126,
                            .hidden = 16384,
                            .heads = 128,
                            .kv_heads = 8,
                            .head_size = 128,
                            .ffn = 53248,
                            .vocab = 128256,
                            .context = 8192}),
            405853388800.0);
  EXPECT_EQ(ParameterCount({.family = Family::kGpt2,
                            .layers = 12,
                            .hidden = 768,
                            .heads = 12,
                            .kv_heads = 12,
                            .head_size = 64,
                            .ffn = 3072,
                            .vocab = 50257,
                            .context = 1024,
                            .tied_embeddings = true,
                            .attention_bias = true,
                            .output_bias = true,
                            .feed_forward_bias = true}),
            124439808.0);
  EXPECT_EQ(ParameterCount({.family = Family::kQwen2,
                            .layers = 24,
                            .hidden = 896,
                            .heads = 14,
                            .kv_heads = 2,
                            .head_size = 64,
                            .ffn = 4864,
                            .vocab = 151936,
                            .context = 32768,
                            .tied_embeddings = true,
                            .attention_bias = true}),
            494032768.0);
  EXPECT_EQ(ParameterCount({.family = Family::kQwen3,
                            .layers = 28,
                            .hidden = 1024,
                            .heads = 16,
                            .kv_heads = 8,
                            .head_size = 128,
                            .ffn = 3072,
                            .vocab = 151936,
                            .context = 40960,
                            .tied_embeddings = true}),
            596049920.0);
}

}  // namespace
}  // namespace strata::model
