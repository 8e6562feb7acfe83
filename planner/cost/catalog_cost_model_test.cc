#include "planner/cost/catalog_cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/bias.h"
#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "planner/performance/catalog.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;
using program::DType;
using program::Tier;

Machine H200() {
  const auto found = Catalog::Shipped().Find({.gpu = "H200", .framework = kOwnFramework});
  EXPECT_TRUE(found.ok()) << found.status();
  return found->machine;
}

program::Op Product(int64_t m, int64_t n, int64_t k, DType type) {
  return ops::ToOp(ops::MatMul{.m = m, .n = n, .k = k, .type = type, .out_type = type});
}

ops::AttentionShape Heads(int64_t window) {
  return {.batch = 2,
          .sequence = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_size = 128,
          .scores = {.window = window},
          .type = DType::kBF16};
}

TEST(CatalogCosts, ALargeProductReachesAPlausibleShareOfThePeak) {
  const CatalogCostModel costs(H200());
  const program::Op op = Product(8192, 8192, 8192, DType::kBF16);
  const double share = op.flops / costs.OpSeconds(op) / 989e12;
  EXPECT_GT(share, 0.6);
  EXPECT_LT(share, 0.85);
  // By FP32 units a product takes as many times longer as their peak is lower, roughly.
  const double slower =
      costs.OpSeconds(Product(8192, 8192, 8192, DType::kF32)) / costs.OpSeconds(op);
  EXPECT_NEAR(slower, 989.0 / 67, 2);
}

TEST(CatalogCosts, AWindowCostsItsPartOfTheWholeAttention) {
  const CatalogCostModel costs(H200());
  const program::Op whole = ops::ToOp(ops::AttentionForward{.shape = Heads(0)});
  const program::Op window = ops::ToOp(ops::AttentionForward{.shape = Heads(512)});
  EXPECT_NEAR(costs.OpSeconds(window) / costs.OpSeconds(whole), window.flops / whole.flops, 1e-9);
  const program::Op backward = ops::ToOp(ops::AttentionBackward{.shape = Heads(0)});
  EXPECT_GT(costs.OpSeconds(backward), 2 * costs.OpSeconds(whole));
}

TEST(CatalogCosts, ABiasIsAddedInTheProductBeforeIt) {
  const CatalogCostModel costs(H200());
  EXPECT_EQ(costs.OpSeconds(ops::ToOp(ops::AddBias::Example())), 0);
}

TEST(CatalogCosts, AnUpdateOnTheHostTakesTheHostsMemory) {
  const Machine machine = H200();
  const CatalogCostModel costs(machine);
  const program::Op update = ops::ToOp(ops::AdamW{
      {.count = 1 << 24, .stride = 1 << 24, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}});
  const double ratio = costs.HostOpSeconds(update) / costs.OpSeconds(update);
  EXPECT_NEAR(
      ratio,
      machine.gpu.memory_rate * machine.calibration.memory / machine.network.host_memory_rate,
      0.05 * ratio);
}

// 16 ranks on two nodes of 8: neighbours of stride 1 share a node, those of stride 8 do not.
TEST(CatalogCosts, AGroupInsideANodeIsFasterThanOneAcrossNodes) {
  const CatalogCostModel costs(H200());
  for (const CollectiveOp op :
       {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllReduce,
        CollectiveOp::kAllToAll, CollectiveOp::kBroadcast, CollectiveOp::kRotate}) {
    const program::Communication large{.op = op, .bytes = 64 << 20};
    const double inside = costs.CollectiveSeconds(large, {.ranks = 2, .stride = 1});
    EXPECT_GT(inside, 0) << Name(op);
    EXPECT_GT(costs.CollectiveSeconds(large, {.ranks = 2, .stride = 8}), 3 * inside) << Name(op);
    EXPECT_EQ(costs.CollectiveSeconds(large, {.ranks = 1}), 0) << Name(op);
  }
  const program::Communication message{.bytes = 64 << 20};
  EXPECT_GT(costs.MessageSeconds(message, {.ranks = 2, .stride = 8}),
            3 * costs.MessageSeconds(message, {.ranks = 2, .stride = 1}));
}

// What a member of an all-gather contributes is a part of the whole; what it reduces, the whole.
TEST(CatalogCosts, BytesOfACollectiveAreAMembersAsInstructionsHaveThem) {
  const CatalogCostModel costs(H200());
  const program::GroupSpan eight{.ranks = 8};
  const double gather =
      costs.CollectiveSeconds({.op = CollectiveOp::kAllGather, .bytes = 32 << 20}, eight);
  const double reduce =
      costs.CollectiveSeconds({.op = CollectiveOp::kAllReduce, .bytes = 256 << 20}, eight);
  EXPECT_NEAR(reduce / gather, 2, 0.2);
}

TEST(CatalogCosts, ATransferTakesTheSlowestLinkOnItsWay) {
  Machine machine = H200();
  machine.network.host_rate = 50e9;
  machine.network.disk_rate = 5e9;
  const CatalogCostModel costs(machine);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kHost, Tier::kDevice, 50'000'000'000), 1);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kDevice, Tier::kSsd, 50'000'000'000), 10);
}

}  // namespace
}  // namespace strata::planner
