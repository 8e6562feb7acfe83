#include "model/weight_names.h"

#include "gtest/gtest.h"

namespace strata::model {
namespace {

ModelSpec Spec(Family family) {
  return {.family = family, .heads = 4, .kv_heads = 2, .head_size = 8, .ffn = 20};
}

TEST(WeightNames, OfOwnTensors_AreTheirs) {
  const std::string name = "model.layers.3.self_attn.q_proj.weight";
  EXPECT_EQ(HuggingFaceTensor(Spec(Family::kQwen3), name), (StoredAs{name, false, 0, 0}));
  EXPECT_EQ(HuggingFaceTensor(Spec(Family::kGpt2), "transformer.h.3.ln_1.weight"),
            (StoredAs{"transformer.h.3.ln_1.weight", false, 0, 0}));
}

TEST(WeightNames, OfGpt2sMatrices_AreTransposed) {
  ModelSpec spec = Spec(Family::kGpt2);
  spec.kv_heads = 4;
  EXPECT_EQ(HuggingFaceTensor(spec, "transformer.h.0.mlp.c_fc.weight"),
            (StoredAs{"transformer.h.0.mlp.c_fc.weight", true, 0, 0}));
  EXPECT_EQ(HuggingFaceTensor(spec, "transformer.h.0.mlp.c_fc.bias"),
            (StoredAs{"transformer.h.0.mlp.c_fc.bias", false, 0, 0}));
  EXPECT_EQ(HuggingFaceTensor(spec, "transformer.h.11.attn.c_attn.v.weight"),
            (StoredAs{"transformer.h.11.attn.c_attn.weight", true, 64, 32}));
  EXPECT_EQ(HuggingFaceTensor(spec, "transformer.h.11.attn.c_attn.k.bias"),
            (StoredAs{"transformer.h.11.attn.c_attn.bias", false, 32, 32}));
  EXPECT_EQ(HuggingFaceTensor(spec, "transformer.wte.weight"),
            (StoredAs{"transformer.wte.weight", false, 0, 0}));
}

TEST(WeightNames, OfPackedParts_AreRowsOfTheWhole) {
  const ModelSpec spec = Spec(Family::kPhi3);
  EXPECT_EQ(HuggingFaceTensor(spec, "model.layers.1.self_attn.qkv_proj.q.weight"),
            (StoredAs{"model.layers.1.self_attn.qkv_proj.weight", false, 0, 32}));
  EXPECT_EQ(HuggingFaceTensor(spec, "model.layers.1.self_attn.qkv_proj.v.weight"),
            (StoredAs{"model.layers.1.self_attn.qkv_proj.weight", false, 48, 16}));
  EXPECT_EQ(HuggingFaceTensor(spec, "model.layers.1.mlp.gate_up_proj.up.weight"),
            (StoredAs{"model.layers.1.mlp.gate_up_proj.weight", false, 20, 20}));
}

}  // namespace
}  // namespace strata::model
