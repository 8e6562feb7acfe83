#include "checkpoint/huggingface/small_models_testing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "checkpoint/testing.h"

namespace strata::checkpoint {
namespace {

model::ModelSpec Sizes(model::Family family) {
  model::ModelSpec spec;
  spec.family = family;
  spec.layers = 1;
  spec.hidden = 6;
  spec.heads = 3;
  spec.kv_heads = 1;
  spec.head_size = 4;
  spec.ffn = 5;
  spec.vocab = 7;
  spec.context = 9;
  return spec;
}

}  // namespace

ModelTensors SmallLlama() {
  const std::string layer = "model.layers.0.";
  return {Sizes(model::Family::kLlama),
          {{"model.embed_tokens.weight", {7, 6}},
           {layer + "self_attn.q_proj.weight", {12, 6}},
           {layer + "self_attn.o_proj.weight", {6, 12}},
           {layer + "input_layernorm.weight", {6}},
           {"model.norm.weight", {6}},
           {"lm_head.weight", {7, 6}}}};
}

ModelTensors SmallGpt2() {
  model::ModelSpec spec = Sizes(model::Family::kGpt2);
  spec.kv_heads = 3;
  spec.tied_embeddings = true;
  const std::string layer = "transformer.h.0.";
  ModelTensors model{spec,
                     {{"transformer.wte.weight", {7, 6}},
                      {"transformer.wpe.weight", {9, 6}},
                      {layer + "attn.c_proj.weight", {6, 12}},
                      {layer + "mlp.c_fc.weight", {5, 6}},
                      {layer + "mlp.c_fc.bias", {5}},
                      {layer + "ln_1.weight", {6}}}};
  for (const char* part : {"q", "k", "v"}) {
    model.tensors.push_back({absl::StrCat(layer, "attn.c_attn.", part, ".weight"), {12, 6}});
    model.tensors.push_back({absl::StrCat(layer, "attn.c_attn.", part, ".bias"), {12}});
  }
  return model;
}

ModelTensors SmallPhi3() {
  const std::string layer = "model.layers.0.";
  return {Sizes(model::Family::kPhi3),
          {{"model.embed_tokens.weight", {7, 6}},
           {layer + "self_attn.qkv_proj.q.weight", {12, 6}},
           {layer + "self_attn.qkv_proj.k.weight", {4, 6}},
           {layer + "self_attn.qkv_proj.v.weight", {4, 6}},
           {layer + "mlp.gate_up_proj.gate.weight", {5, 6}},
           {layer + "mlp.gate_up_proj.up.weight", {5, 6}}}};
}

float StoredValue(const std::string& name, int64_t index) {
  const auto start = static_cast<int64_t>(std::hash<std::string>()(name) % 100);
  return static_cast<float>((start + index) % 251 - 125) / 32;
}

absl::Status StoredValues::ReadRegion(const std::string& name, const Region& region, float* out) {
  if (name == missing) return absl::NotFoundError(absl::StrCat("no ", name));
  std::vector<int64_t> shape;
  for (const ModelTensors& model : {SmallLlama(), SmallGpt2(), SmallPhi3()}) {
    for (const LogicalTensorShape& tensor : model.tensors) {
      if (tensor.name == name) shape = tensor.shape;
    }
  }
  const std::vector<int64_t> in_box = DenseStrides(region.box.extent), whole = DenseStrides(shape);
  for (int64_t i = region.begin; i < region.end; ++i) {
    int64_t rest = i, index = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      index += (region.box.offset[d] + rest / in_box[d]) * whole[d];
      rest %= in_box[d];
    }
    *out++ = scale * StoredValue(name, index);
  }
  return absl::OkStatus();
}

std::string ModelFolderWith(const std::string& config) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "model_folder_" + test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

void ExpectSameRanges(const ModelTensors& model, TensorSource& source) {
  StoredValues expected;
  for (const LogicalTensorShape& tensor : model.tensors) {
    const Box whole = WholeBox(tensor.shape);
    std::vector<Region> regions = {{whole, 0, whole.elements()}};
    for (uint64_t seed = 0; seed < 8; ++seed) {
      for (Region& region : RandomCut(tensor.shape, seed)) regions.push_back(std::move(region));
    }
    for (const Region& region : regions) {
      const auto size = static_cast<size_t>(region.end - region.begin);
      std::vector<float> found(size), right(size);
      const absl::Status status = source.ReadRegion(tensor.name, region, found.data());
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(expected.ReadRegion(tensor.name, region, right.data()).ok());
      ASSERT_EQ(found, right) << tensor.name << " " << ToText(region.box);
    }
  }
}

}  // namespace strata::checkpoint
