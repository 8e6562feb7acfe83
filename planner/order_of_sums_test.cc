#include "planner/order_of_sums.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::planner {
namespace {

using ::testing::HasSubstr;

// Llama 3 8B on two ranks, 16 micro-batches each.
v1::JobSpec Job(v1::ParallelSpec::Shard shard, int64_t virtual_shards) {
  v1::JobSpec job;
  v1::ModelSpec& model = *job.mutable_model();
  model.set_family(v1::ModelSpec::FAMILY_LLAMA);
  model.set_layers(32);
  model.set_hidden(4096);
  model.set_heads(32);
  model.set_kv_heads(8);
  model.set_head_size(128);
  model.set_ffn(14336);
  model.set_vocab(128256);
  model.set_context(8192);
  job.mutable_parallel()->set_data(2);
  job.mutable_parallel()->set_shard(shard);
  job.mutable_parallel()->set_virtual_shards(virtual_shards);
  return job;
}

TEST(OrderOfSums, WithoutATree_IsTold) {
  EXPECT_THAT(OrderOfSums(Job(v1::ParallelSpec::SHARD_ZERO3, 0)),
              HasSubstr("virtual_shards is off"));
}

TEST(OrderOfSums, TreeOverManyLeaves_CostsItsPartialSums) {
  // 8.03e9 parameters in f32, half a rank: 15.0 GiB a sum, of which 1 + log2(16) are kept.
  const std::string told = OrderOfSums(Job(v1::ParallelSpec::SHARD_ZERO2, 32));
  EXPECT_THAT(told, HasSubstr("up to 5: 74.79 GiB instead of the 14.96 GiB"));
}

TEST(OrderOfSums, NothingToSay_IsEmpty) {
  EXPECT_EQ(OrderOfSums(Job(v1::ParallelSpec::SHARD_ZERO2, 2)), "");
  EXPECT_EQ(OrderOfSums(Job(v1::ParallelSpec::SHARD_NONE, 32)), "");
  EXPECT_EQ(OrderOfSums(Job(v1::ParallelSpec::SHARD_ZERO1, 32)), "");
}

}  // namespace
}  // namespace strata::planner
