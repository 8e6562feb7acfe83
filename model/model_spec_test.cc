#include "model/model_spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/model_spec_proto.h"

namespace strata::model {
namespace {

v1::ModelSpec Message() {
  v1::ModelSpec message;
  message.set_family(v1::ModelSpec::FAMILY_LLAMA);
  message.set_layers(6);
  message.set_hidden(384);
  message.set_heads(6);
  message.set_ffn(1024);
  message.set_vocab(256);
  message.set_context(1024);
  return message;
}

TEST(ModelSpecTest, FromProto_DerivesAbsentSizes) {
  const absl::StatusOr<ModelSpec> spec = FromProto(Message());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->kv_heads, 6);
  EXPECT_EQ(spec->head_size, 64);
  EXPECT_EQ(spec->qkv_rows(), 3 * 384);
  EXPECT_EQ(spec->rope_theta, 10000);
  EXPECT_EQ(spec->initial_std, 0.02);
  EXPECT_FALSE(spec->tied_embeddings);
}

TEST(ModelSpecTest, FromProto_KeepsWhatIsWritten) {
  v1::ModelSpec message = Message();
  message.set_kv_heads(2);
  message.set_head_size(32);
  message.set_tied_embeddings(true);
  message.mutable_rope()->set_theta(5e5);
  message.set_initial_std(0.01);
  const absl::StatusOr<ModelSpec> spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->qkv_rows(), 10 * 32);
  EXPECT_TRUE(spec->tied_embeddings);
  EXPECT_EQ(spec->rope_theta, 5e5);
  EXPECT_EQ(spec->initial_std, 0.01);
}

TEST(ModelSpecTest, MissingSize_IsNamed) {
  v1::ModelSpec message = Message();
  message.clear_ffn();
  EXPECT_THAT(std::string(FromProto(message).status().message()), testing::HasSubstr("model.ffn"));
}

TEST(ModelSpecTest, HeadsThatDoNotDivide_AreRefused) {
  v1::ModelSpec message = Message();
  message.set_heads(5);
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
  message.set_heads(6);
  message.set_kv_heads(4);
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ModelSpecTest, RopeScaling_IsChecked) {
  const auto told = [](auto change) {
    v1::ModelSpec message = Message();
    v1::RopeScaling& scaling = *message.mutable_rope()->mutable_scaling();
    scaling.set_factor(2);
    scaling.set_original_max_position_embeddings(512);
    change(scaling);
    return std::string(FromProto(message).status().message());
  };
  EXPECT_EQ(told([](v1::RopeScaling& scaling) { scaling.set_rope_type("llama3"); }), "");
  EXPECT_EQ(told([](v1::RopeScaling& scaling) { scaling.set_rope_type("yarn"); }), "");
  EXPECT_THAT(told([](v1::RopeScaling& scaling) { scaling.set_rope_type("dynamic"); }),
              testing::HasSubstr("dynamic is not one of"));
  EXPECT_THAT(told([](v1::RopeScaling& scaling) {
                scaling.set_rope_type("llama3");
                scaling.set_high_freq_factor(1);
              }),
              testing::HasSubstr("high_freq_factor"));
  EXPECT_THAT(told([](v1::RopeScaling& scaling) {
                scaling.set_rope_type("longrope");
                scaling.add_short_factor(1);
              }),
              testing::HasSubstr("short_factor: has 1 numbers, but 32 pairs"));
}

TEST(ModelSpecTest, LongRopesFactor_IsThatOfThePositions) {
  v1::ModelSpec message = Message();
  v1::RopeScaling& scaling = *message.mutable_rope()->mutable_scaling();
  scaling.set_rope_type("longrope");
  scaling.set_original_max_position_embeddings(256);
  for (int i = 0; i < 32; ++i) {
    scaling.add_short_factor(1 + i);
    scaling.add_long_factor(2 + i);
  }
  const absl::StatusOr<ModelSpec> spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->rope_scaling.factor, 4);
  EXPECT_EQ(spec->rope_scaling.long_factor[3], 5);
}

TEST(ModelSpecTest, AbsentFields_AreWhatTheFamilyDoes) {
  v1::ModelSpec message = Message();
  message.set_family(v1::ModelSpec::FAMILY_GEMMA3);
  const absl::StatusOr<ModelSpec> gemma = FromProto(message);
  ASSERT_TRUE(gemma.ok()) << gemma.status();
  EXPECT_EQ(gemma->rope_theta, 1e6);
  EXPECT_EQ(gemma->local_rope_theta, 1e4);
  EXPECT_EQ(gemma->norm_epsilon, 1e-6);
  EXPECT_EQ(gemma->sliding_window, 0);
  EXPECT_TRUE(gemma->tied_embeddings);
  message.set_family(v1::ModelSpec::FAMILY_QWEN2);
  EXPECT_TRUE(FromProto(message)->attention_bias);
  EXPECT_FALSE(FromProto(message)->output_bias);
}

TEST(ModelSpecTest, Windows_AreOfTheLayersNotNamed) {
  v1::ModelSpec message = Message();
  message.set_sliding_window(8);
  EXPECT_EQ(FromProto(message)->window(5), 8);
  message.add_full_attention_layers(5);
  EXPECT_EQ(FromProto(message)->window(5), 0);
  EXPECT_EQ(FromProto(message)->window(4), 8);
  message.add_full_attention_layers(6);
  EXPECT_THAT(std::string(FromProto(message).status().message()),
              testing::HasSubstr("there is no 6 among 6 layers"));
}

TEST(ModelSpecTest, ToProto_IsReadAgain) {
  for (const Family family : {Family::kLlama, Family::kGpt2, Family::kMistral, Family::kQwen2,
                              Family::kQwen3, Family::kGemma2, Family::kGemma3, Family::kPhi3}) {
    v1::ModelSpec message = Message();
    message.set_family(ToProto(family));
    message.mutable_rope()->set_partial_rotary_factor(0.34375);
    message.set_sliding_window(7);
    message.add_full_attention_layers(2);
    message.set_attention_softcap(0);
    message.set_query_scale(30);
    v1::RopeScaling& scaling = *message.mutable_rope()->mutable_scaling();
    scaling.set_rope_type("yarn");
    scaling.set_factor(3);
    scaling.set_original_max_position_embeddings(99);
    scaling.set_beta_fast(20);
    const absl::StatusOr<ModelSpec> spec = FromProto(message);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->rotary_size, 22);
    const v1::ModelSpec written = ToProto(*spec);
    const absl::StatusOr<ModelSpec> again = FromProto(written);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ToProto(*again).SerializeAsString(), written.SerializeAsString());
    EXPECT_EQ(again->family, family);
    EXPECT_EQ(again->rotary_size, 22);
    EXPECT_EQ(again->attention_softcap, 0);
    EXPECT_EQ(again->full_attention, spec->full_attention);
    EXPECT_EQ(again->rope_scaling, spec->rope_scaling);
  }
}

TEST(ModelSpecTest, NegativeAndHugeSizes_AreRefused) {
  for (const int64_t size : {int64_t{-1}, int64_t{0}, int64_t{1} << 62}) {
    v1::ModelSpec message = Message();
    message.set_vocab(size);
    EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
    message = Message();
    message.set_heads(size);
    EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strata::model
