#include "planner/traffic.h"

#include "gtest/gtest.h"

namespace strata::planner {
namespace {

using v1::ParallelSpec;
using v1::TrainSpec;

const EdgeTraffic& Of(const Traffic& traffic, Dimension dimension) {
  return traffic[static_cast<size_t>(dimension)];
}

// 1000 · 16 · 2 (tables) + 4 layers of (16·32 + 16·16 + 3·16·32 + 32) + 16 = 41,360 parameters.
model::ModelSpec SmallModel() {
  return {.layers = 4,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 4,
          .ffn = 32,
          .vocab = 1000,
          .context = 8};
}
constexpr double kSmallParameters = 41360;

v1::JobSpec SmallJob() {
  v1::JobSpec job;
  job.mutable_train()->set_sequence(8);
  job.mutable_train()->set_global_batch(24);
  job.mutable_train()->set_micro_batch(2);
  job.mutable_train()->set_precision(TrainSpec::PRECISION_BF16);
  job.mutable_parallel()->set_shard(ParallelSpec::SHARD_ZERO1);
  return job;
}

Traffic SmallTraffic(const v1::JobSpec& job) {
  const auto degrees = DegreesOf(job.parallel());
  EXPECT_TRUE(degrees.ok()) << degrees.status();
  return TrafficOf(SmallModel(), job, *degrees);
}

TEST(DegreesOf, WithoutAShardGroupAreThoseOfTheJob) {
  v1::JobSpec job;
  job.mutable_parallel()->set_tensor(8);
  job.mutable_parallel()->set_data(6);
  const auto degrees = DegreesOf(job.parallel());
  ASSERT_TRUE(degrees.ok());
  EXPECT_EQ(*degrees, (Degrees{8, 1, 1, 1, 6, 1}));
}

TEST(DegreesOf, WithAShardGroupSplitData) {
  v1::JobSpec job;
  job.mutable_parallel()->set_data(6);
  job.mutable_parallel()->set_shard_group(3);
  EXPECT_EQ(*DegreesOf(job.parallel()), (Degrees{1, 1, 1, 1, 3, 2}));
  job.mutable_parallel()->set_shard_group(4);
  EXPECT_EQ(DegreesOf(job.parallel()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TrafficOf, OneRankIsNothing) {
  for (const EdgeTraffic& edge : SmallTraffic(SmallJob())) {
    EXPECT_EQ(edge.next_bytes, 0);
    EXPECT_EQ(edge.previous_bytes, 0);
    EXPECT_EQ(edge.messages, 0);
  }
}

TEST(TrafficOf, DataFollowsTheShardLevel) {
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_data(4);
  const auto data = [&](ParallelSpec::Shard shard) {
    job.mutable_parallel()->set_shard(shard);
    const Traffic traffic = SmallTraffic(job);
    EXPECT_EQ(Of(traffic, Dimension::kData).pattern, EdgeTraffic::Pattern::kRing);
    EXPECT_EQ(Of(traffic, Dimension::kData).previous_bytes, 0);
    return Of(traffic, Dimension::kData).next_bytes;
  };
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_NONE), 2 * 4 * kSmallParameters * 3 / 4);
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_ZERO1), (4 + 2) * kSmallParameters * 3 / 4);
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_ZERO2), (4 + 2) * kSmallParameters * 3 / 4);
  const double once = (4 + 2 + 2) * kSmallParameters * 3 / 4;
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_ZERO3), 3 * once);  // micro-batches
  job.mutable_parallel()->set_micro_order(ParallelSpec::MICRO_ORDER_LAYER_FIRST);
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_ZERO3), once);
  job.mutable_train()->set_precision(TrainSpec::PRECISION_F32);
  EXPECT_DOUBLE_EQ(data(ParallelSpec::SHARD_ZERO1), (4 + 4) * kSmallParameters * 3 / 4);
}

TEST(TrafficOf, AShardGroupReducesItsShardBetweenGroups) {
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_data(6);
  job.mutable_parallel()->set_shard_group(2);
  const Traffic traffic = SmallTraffic(job);
  EXPECT_DOUBLE_EQ(Of(traffic, Dimension::kData).next_bytes, (4 + 2) * kSmallParameters / 2);
  EXPECT_DOUBLE_EQ(Of(traffic, Dimension::kReplicate).next_bytes,
                   2 * (4 * kSmallParameters / 2) * 2 / 3);
}

TEST(TrafficOf, TensorReducesTwicePerLayerAndPass) {
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_tensor(2);
  job.mutable_parallel()->set_pipeline(2);
  // 2 layers a stage, 12 micro-batches, 4 all-reduces of 2·8 tokens · 16 · 2 B, each 2(n−1)/n = 1.
  const double once = 2.0 * 12 * 4 * (2 * 8 * 16 * 2);
  EXPECT_DOUBLE_EQ(Of(SmallTraffic(job), Dimension::kTensor).next_bytes, once);
  EXPECT_EQ(Of(SmallTraffic(job), Dimension::kTensor).exposed, 1);
  job.mutable_parallel()->mutable_recompute()->set_mode(v1::RecomputeSpec::MODE_FULL);
  EXPECT_DOUBLE_EQ(Of(SmallTraffic(job), Dimension::kTensor).next_bytes, once * 6 / 4);
}

TEST(TrafficOf, PipelineIsALineAndWithVirtualStagesARing) {
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_tensor(2);
  job.mutable_parallel()->set_pipeline(4);
  const double boundary = 2.0 * 8 * 16 / 2 * 2;
  EdgeTraffic edge = Of(SmallTraffic(job), Dimension::kPipeline);
  EXPECT_EQ(edge.pattern, EdgeTraffic::Pattern::kLine);
  EXPECT_DOUBLE_EQ(edge.next_bytes, 12 * boundary);
  EXPECT_DOUBLE_EQ(edge.previous_bytes, 12 * boundary);
  EXPECT_DOUBLE_EQ(edge.exposed, 3.0 / 15);
  job.mutable_parallel()->set_virtual_stages(3);
  edge = Of(SmallTraffic(job), Dimension::kPipeline);
  EXPECT_EQ(edge.pattern, EdgeTraffic::Pattern::kRing);
  EXPECT_DOUBLE_EQ(edge.next_bytes, 12 * 3 * boundary);
  EXPECT_DOUBLE_EQ(edge.closing, 2.0 / 3);
}

TEST(TrafficOf, ContextPassesKeysAndValuesAround) {
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_context(2);
  job.mutable_parallel()->set_shard(ParallelSpec::SHARD_NONE);
  // K and V of 2·8/2 tokens · 8 · 2 B each; 1 + 1 + 2 hops; 4 layers, 12 micro-batches.
  const double keys_and_values = 4.0 * 12 * 4 * (2 * 8 * 8 * 2);
  EXPECT_DOUBLE_EQ(Of(SmallTraffic(job), Dimension::kContext).next_bytes,
                   keys_and_values + 2 * 4 * kSmallParameters / 2);
}

// Llama 3 (2024), §3.3.2 and table 4: 405B parameters, tensor 8, pipeline 16, data 128, bf16.
TEST(TrafficOf, Llama3SendsNineteenGigabytesOfWeightsAndGradients) {
  const model::ModelSpec model = {.layers = 126,
                                  .hidden = 16384,
                                  .heads = 128,
                                  .kv_heads = 8,
                                  .head_size = 128,
                                  .ffn = 53248,
                                  .vocab = 128256,
                                  .context = 8192};
  v1::JobSpec job = SmallJob();
  job.mutable_parallel()->set_tensor(8);
  job.mutable_parallel()->set_pipeline(16);
  job.mutable_parallel()->set_data(128);
  job.mutable_parallel()->set_shard(ParallelSpec::SHARD_ZERO2);
  const Traffic traffic = TrafficOf(model, job, *DegreesOf(job.parallel()));
  EXPECT_NEAR(Of(traffic, Dimension::kData).next_bytes, 19e9, 0.2e9);
}

}  // namespace
}  // namespace strata::planner
