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

TEST(ModelSpecTest, RopeScaling_IsNotSupportedYet) {
  v1::ModelSpec message = Message();
  message.mutable_rope()->mutable_scaling()->set_factor(2);
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kUnimplemented);
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
