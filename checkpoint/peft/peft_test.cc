// Against directories that PEFT wrote (tests/parity/make_adapter_goldens.py).
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/box.h"
#include "checkpoint/peft/adapted_source.h"
#include "checkpoint/peft/adapter_config.h"
#include "checkpoint/peft/adapter_tensors.h"
#include "checkpoint/peft/adapter_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using testing::HasSubstr;

const char* const kGpt2 = "checkpoint/peft/goldens/gpt2";
const char* const kLlama = "checkpoint/peft/goldens/llama";

// As the model has them.
std::vector<AdapterTensor> Gpt2Tensors() {
  const std::string h = "transformer.h.0.";
  return {{h + "attn.c_attn.lora_A.weight", {2, 8}},   {h + "attn.c_attn.lora_B.q.weight", {8, 2}},
          {h + "attn.c_attn.lora_B.k.weight", {8, 2}}, {h + "attn.c_attn.lora_B.v.weight", {8, 2}},
          {h + "attn.c_proj.lora_A.weight", {2, 8}},   {h + "attn.c_proj.lora_B.weight", {8, 2}},
          {h + "mlp.c_fc.lora_A.weight", {2, 8}},      {h + "mlp.c_fc.lora_B.weight", {32, 2}},
          {h + "mlp.c_proj.lora_A.weight", {2, 32}},   {h + "mlp.c_proj.lora_B.weight", {8, 2}}};
}

std::vector<AdapterTensor> LlamaTensors() {
  std::vector<AdapterTensor> tensors;
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string at = layer;
    tensors.push_back({at + "self_attn.q_proj.lora_A.weight", {2, 8}});
    tensors.push_back({at + "self_attn.v_proj.lora_A.weight", {2, 8}});
    tensors.push_back({at + "self_attn.q_proj.lora_B.weight", {8, 2}});
    tensors.push_back({at + "self_attn.v_proj.lora_B.weight", {4, 2}});
    tensors.push_back({at + "mlp.down_proj.lora_A.weight", {2, 12}});
    tensors.push_back({at + "mlp.down_proj.lora_B.weight", {8, 2}});
  }
  return tensors;
}

float Golden(int64_t tensor, int64_t element) {
  return static_cast<float>((element * 7 + tensor * 5) % 31 - 15) / 64;
}

std::vector<float> ReadAll(TensorSource& source, const AdapterTensor& tensor) {
  std::vector<float> values(tensor.shape[0] * tensor.shape[1], -99);
  const Box whole = WholeBox(tensor.shape);
  const absl::Status status =
      source.ReadRegion(tensor.name, {whole, 0, whole.elements()}, values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(AdapterWeightsTest, WhatPeftWroteForGpt2_IsReadByPartsOfPackedTensors) {
  const std::vector<AdapterTensor> tensors = Gpt2Tensors();
  const auto weights = AdapterWeights::Open(kGpt2, tensors, AdapterWeights::Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const int64_t first[] = {0, 1, 1, 1, 2, 3, 4, 5, 6, 7};  // the golden's tensor
  const int64_t rows[] = {0, 0, 8, 16, 0, 0, 0, 0, 0, 0};  // and the row of it
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<float> values = ReadAll(**weights, tensors[t]);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t element = rows[t] * tensors[t].shape[1] + static_cast<int64_t>(i);
      ASSERT_EQ(values[i], Golden(first[t], element)) << tensors[t].name << " " << i;
    }
  }
}

TEST(AdapterTensorsTest, PartsOfPackedTensors_AreInTheOrderOfTheirRows) {
  model::ModelSpec spec;
  spec.family = model::Family::kGpt2;
  spec.heads = spec.kv_heads = 2;
  spec.head_size = 4;
  std::vector<LogicalTensorShape> tensors = {{"transformer.wte.weight", {32, 8}}};
  for (const AdapterTensor& tensor : Gpt2Tensors()) tensors.push_back({tensor.name, tensor.shape});
  std::sort(tensors.begin() + 1, tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const std::vector<AdapterTensor> adapters = AdapterTensorsOf(spec, tensors);
  ASSERT_EQ(adapters.size(), 10u);
  const std::string b = "transformer.h.0.attn.c_attn.lora_B.";
  std::vector<std::string> parts;
  for (const AdapterTensor& tensor : adapters) {
    if (absl::StartsWith(tensor.name, b)) parts.push_back(tensor.name.substr(b.size()));
  }
  EXPECT_EQ(parts, (std::vector<std::string>{"q.weight", "k.weight", "v.weight"}));
  // Keys come before queries by name; rows are read from where they are all the same.
  const auto weights = AdapterWeights::Open(kGpt2, adapters, AdapterWeights::Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(ReadAll(**weights, {b + "k.weight", {8, 2}})[0], Golden(1, 16));
}

TEST(AdapterWeightsTest, RegionsOfTensorsInBf16_AreTheElementsAskedFor) {
  const auto weights = AdapterWeights::Open(kLlama, LlamaTensors(), AdapterWeights::Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  std::vector<float> values(4);
  // Of columns 3 to 6 of both rows, the last two of the first and the first two of the second.
  const Region region{{{0, 3}, {2, 4}}, 2, 6};
  ASSERT_TRUE(
      (*weights)
          ->ReadRegion("model.layers.0.self_attn.q_proj.lora_A.weight", region, values.data())
          .ok());
  EXPECT_THAT(values,
              testing::ElementsAre(Golden(2, 5), Golden(2, 6), Golden(2, 11), Golden(2, 12)));
}

TEST(AdapterWeightsTest, MissingOtherAndMisshapenTensors_AreNamed) {
  std::vector<AdapterTensor> tensors = LlamaTensors();
  tensors[0].shape = {4, 8};
  tensors.back().name = "model.layers.1.mlp.up_proj.lora_B.weight";
  const absl::Status status =
      AdapterWeights::Open(kLlama, tensors, AdapterWeights::Named::kAll).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("layers.0.self_attn.q_proj.lora_A.weight: has the shape [2, 8], "
                                 "the model's has [4, 8]"));
  EXPECT_THAT(message, HasSubstr("up_proj.lora_B.weight: missing"));
  EXPECT_THAT(message, HasSubstr("layers.1.mlp.down_proj.lora_B.weight: is not a tensor of"));
}

TEST(AdapterWeightsTest, NoDirectory_IsNamed) {
  const absl::Status status =
      AdapterWeights::Open("checkpoint/peft/none", {}, AdapterWeights::Named::kAll).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("checkpoint/peft/none/adapter_model"));
}

TEST(AdapterConfigTest, WhatPeftWrote_IsRead) {
  const auto config = ReadAdapterConfig(kGpt2);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rank, 2);
  EXPECT_EQ(config->alpha, 3);
  EXPECT_EQ(config->scale(), 1.5);
}

TEST(AdapterConfigTest, Variants_AreRefusedByName) {
  const auto refusal = [](const std::string& more) {
    const std::string text =
        absl::StrCat(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, )", more, "}");
    return std::string(ParseAdapterConfig(text, "a.json").status().message());
  };
  EXPECT_EQ(refusal(R"("use_dora": false, "modules_to_save": null, "rank_pattern": {})"), "");
  EXPECT_THAT(refusal(R"("use_rslora": true)"), HasSubstr("a.json: use_rslora: is not supported"));
  EXPECT_THAT(refusal(R"("use_dora": true)"), HasSubstr("use_dora"));
  EXPECT_THAT(refusal(R"("modules_to_save": ["lm_head"])"), HasSubstr("modules_to_save"));
  EXPECT_THAT(refusal(R"("rank_pattern": {"q_proj": 8})"), HasSubstr("rank_pattern"));
  EXPECT_THAT(refusal(R"("bias": "all")"), HasSubstr("a.json: bias: trained biases"));
  EXPECT_THAT(refusal(R"("r": -1)"), HasSubstr("a.json: r: not a rank"));
  EXPECT_THAT(refusal(R"("r": 1e300)"), HasSubstr("a.json: r: not a rank"));
  EXPECT_THAT(refusal(R"("peft_type": "IA3")"), HasSubstr("peft_type: only LORA"));
  EXPECT_THAT(std::string(ParseAdapterConfig("[", "a.json").status().message()),
              HasSubstr("is not a JSON object"));
}

TEST(WriteAdapterTest, WhatWasRead_IsWrittenWithTheSameTensors) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/peft_out");
  ASSERT_TRUE(PosixFileSystem()->RemoveAll(folder).ok());
  const auto weights = AdapterWeights::Open(kGpt2, Gpt2Tensors(), AdapterWeights::Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  AdapterToWrite adapter;
  adapter.config = {2, 3, "/models/gpt2", {}, true};
  adapter.tensors = Gpt2Tensors();
  adapter.source = weights->get();
  const absl::Status status = WriteAdapter(adapter, folder);
  ASSERT_TRUE(status.ok()) << status;
  const auto again = AdapterWeights::Open(folder, Gpt2Tensors(), AdapterWeights::Named::kAll);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const AdapterTensor& tensor : Gpt2Tensors()) {
    EXPECT_EQ(ReadAll(**again, tensor), ReadAll(**weights, tensor)) << tensor.name;
  }
  const auto config = ReadAdapterConfig(folder);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rank, 2);
  EXPECT_EQ(config->base, "/models/gpt2");
  const auto modules = AdaptedModules(folder);
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_THAT(*modules, testing::UnorderedElementsAre(
                            "transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_proj",
                            "transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"));
  EXPECT_EQ(WriteAdapter(adapter, folder).code(), absl::StatusCode::kAlreadyExists);
}

// Every element of a weight is 1.
class Ones final : public TensorSource {
 public:
  absl::Status ReadRegion(const std::string&, const Region& region, float* out) override {
    std::fill(out, out + (region.end - region.begin), 1.0f);
    return absl::OkStatus();
  }
};

TEST(MergedSourceTest, WeightsWithAnAdapter_HaveItsProductAdded) {
  const auto weights = AdapterWeights::Open(kGpt2, Gpt2Tensors(), AdapterWeights::Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  Ones base;
  MergedSource merged(&base, weights->get(), Gpt2Tensors(), 1.5);
  std::vector<float> values(5);
  // Rows 1 to 3, columns 2 to 5 of the keys' part, from the third element on.
  const Region region{{{1, 2}, {3, 4}}, 2, 7};
  ASSERT_TRUE(
      merged.ReadRegion("transformer.h.0.attn.c_attn.k.weight", region, values.data()).ok());
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t row = 1 + (i + 2) / 4, column = 2 + (i + 2) % 4;
    float sum = 0;
    for (int64_t k = 0; k < 2; ++k) {
      sum += Golden(1, (8 + row) * 2 + k) * Golden(0, k * 8 + column);
    }
    EXPECT_EQ(values[i], 1 + 1.5f * sum) << i;
  }
  ASSERT_TRUE(merged.ReadRegion("transformer.wte.weight", region, values.data()).ok());
  EXPECT_THAT(values, testing::Each(1.0f));
}

}  // namespace
}  // namespace strata::checkpoint
