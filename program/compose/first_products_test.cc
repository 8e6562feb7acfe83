// Which gradients begin with zeros, and which with what a product writes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/matmul.h"
#include "program/compose/composer.h"
#include "program/readers/timeline.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int kBlocks = 3;
constexpr int64_t kColumns = 64, kDepth = 8;
constexpr int64_t kMatrix = toy::kBlockSet / 4 * 3;  // of a block's set, then its vectors

Op Product(const Operand& a, const Operand& b, Operand c) {
  const int64_t rows = c.bytes / 4 / kColumns;
  Op op = ops::ToOp(
      ops::MatMul{.m = rows, .n = kColumns, .k = kDepth, .trans_a = true, .accumulate = true});
  op.operands = {a, b, c};
  op.operands[0].bytes = rows * kDepth * 4;
  op.operands[1].bytes = kColumns * kDepth * 4;
  return op;
}

int FormalOf(const Template& tmpl, Role role, int index) {
  for (size_t f = 0; f < tmpl.formals.size(); ++f) {
    if (tmpl.formals[f].role == role && tmpl.formals[f].index == index) return static_cast<int>(f);
  }
  return -1;
}

// The op that adds to the gradient leaves its first `bytes` to `chunks` products behind it.
void AddProducts(Template& tmpl, int index, int64_t bytes, int chunks) {
  const int sum = FormalOf(tmpl, Role::kGradients, index);
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    Operand of_product, factor;
    for (Operand& operand : tmpl.ops[o].operands) {
      if (operand.access == Access::kRead) factor = operand;
      if (operand.slot != sum) continue;
      of_product = operand;
      of_product.bytes = bytes;
      operand.offset += bytes;
      operand.bytes -= bytes;
    }
    if (of_product.slot < 0) continue;
    const Operand input{.slot = FormalOf(tmpl, Role::kInput, 0)};
    tmpl.ops.insert(tmpl.ops.begin() + static_cast<int64_t>(o) + 1, chunks,
                    Product(factor, input, of_product));
    return;
  }
}

LayerGraph GraphWithProducts(bool tied) {
  LayerGraph graph = ToyGraph({.blocks = kBlocks, .tied = tied});
  const LayerTemplates &block = graph.layers[1].templates, &head = graph.layers.back().templates;
  for (const int tmpl : {block.backward, block.backward_weight}) {
    AddProducts(graph.templates[tmpl], 0, kMatrix, 1);
  }
  for (const int tmpl : {head.backward, head.backward_input}) {
    AddProducts(graph.templates[tmpl], 1, toy::kTableSet, 2);
  }
  return graph;
}

Plan OneRank(int64_t micro_batches, int64_t virtual_shards = 1) {
  return {.virtual_shards = virtual_shards,
          .global_batch = micro_batches,
          .evaluate_batch = 1,
          .gradient_clip = 1,
          .scratch = ToyScratch};
}

std::vector<StagePrograms> Build(const LayerGraph& graph, const Plan& plan) {
  auto built = Compose(graph, plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? *std::move(built) : std::vector<StagePrograms>{};
}

absl::Status VerifyAll(const std::vector<StagePrograms>& stages) {
  std::vector<const ProgramSet*> sets;
  for (const StagePrograms& stage : stages) sets.push_back(&stage.set);
  return Verify(sets, "train", {.sizes = stages.front().set.groups});
}

// Of the slots of gradients: name, and the bytes that are filled with zeros.
std::vector<std::pair<std::string, std::string>> Filled(const ProgramSet& set) {
  std::vector<std::pair<std::string, std::string>> filled;
  const Program& train = set.programs[0];
  for (const Instruction& instruction : train.instructions) {
    if (!absl::StartsWith(instruction.label, "zero gradient")) continue;
    const Operand& o = instruction.operands[0];
    filled.emplace_back(set.slot(train, o.slot).name,
                        absl::StrCat(o.offset, " to ", o.offset + o.bytes));
  }
  return filled;
}

// What the products of the layer's calls do to gradients, call by call: w, write; a, add.
std::vector<std::string> ProductsOf(const ProgramSet& set, const std::string& layer) {
  std::vector<std::string> calls;
  for (const Instruction& instruction : set.programs[0].instructions) {
    if (instruction.mechanism != Mechanism::kCall) continue;
    if (!absl::StrContains(instruction.label, absl::StrCat(" ", layer, " micro"))) continue;
    std::string products;
    const Template& tmpl = set.templates[instruction.template_index];
    for (const Op& op : tmpl.ops) {
      const auto product = ops::FromOp<ops::MatMul>(op);
      if (!product.ok()) continue;
      EXPECT_EQ(op.operands[2].access, product->accumulate ? Access::kAccumulate : Access::kWrite);
      absl::StrAppend(&products, product->accumulate ? "a" : "w");
    }
    if (!products.empty()) calls.push_back(products);
  }
  return calls;
}

std::string Range(int64_t begin, int64_t end) { return absl::StrCat(begin, " to ", end); }

TEST(FirstProductsTest, OneMicroBatch_ProductsWriteAndTheRestIsFilled) {
  const std::vector<StagePrograms> built = Build(GraphWithProducts(/*tied=*/false), OneRank(1));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  const ProgramSet& set = built[0].set;
  const std::string vectors = Range(kMatrix, toy::kBlockSet);
  EXPECT_THAT(Filled(set), ElementsAre(Pair("gradient of norm", Range(0, toy::kNormSet)),
                                       Pair("gradient of block 2", vectors),
                                       Pair("gradient of block 1", vectors),
                                       Pair("gradient of block 0", vectors),
                                       // A lookup adds row by row.
                                       Pair("gradient of table", Range(0, toy::kTableSet))));
  for (const char* block : {"block 0", "block 1", "block 2"}) {
    EXPECT_THAT(ProductsOf(set, block), ElementsAre("w")) << block;
  }
  EXPECT_THAT(ProductsOf(set, "head"), ElementsAre("wa"));  // the second chunk adds
}

TEST(FirstProductsTest, FurtherMicroBatches_Add) {
  const std::vector<StagePrograms> built = Build(GraphWithProducts(/*tied=*/false), OneRank(3));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  EXPECT_THAT(ProductsOf(built[0].set, "block 1"), ElementsAre("w", "a", "a"));
  EXPECT_THAT(ProductsOf(built[0].set, "head"), ElementsAre("wa", "aa", "aa"));
  EXPECT_EQ(Filled(built[0].set).size(), 2 + kBlocks);
}

TEST(FirstProductsTest, EachLeafOfATree_IsWrittenFirst) {
  const std::vector<StagePrograms> built = Build(GraphWithProducts(/*tied=*/false), OneRank(4, 2));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  EXPECT_THAT(ProductsOf(built[0].set, "block 1"), ElementsAre("w", "a", "w", "a"));
}

TEST(FirstProductsTest, TiedTable_IsWrittenByTheHeadAndNeverFilled) {
  const std::vector<StagePrograms> built = Build(GraphWithProducts(/*tied=*/true), OneRank(2));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  EXPECT_THAT(ProductsOf(built[0].set, "head"), ElementsAre("wa", "aa"));
  for (const auto& [slot, range] : Filled(built[0].set)) EXPECT_NE(slot, "gradient of table");
}

TEST(FirstProductsTest, BytesThatAnotherOpTouchesBefore_AreFilled) {
  LayerGraph graph = GraphWithProducts(/*tied=*/false);
  Template& backward = graph.templates[graph.layers[1].templates.backward];
  const int sum = FormalOf(backward, Role::kGradients, 0);
  Op first{.kind = OpKind::kBiasGradient,
           .operands = {{.slot = sum, .offset = 64, .bytes = 64, .access = Access::kAccumulate}}};
  backward.ops.insert(backward.ops.begin(), std::move(first));
  const std::vector<StagePrograms> built = Build(graph, OneRank(1));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  EXPECT_THAT(ProductsOf(built[0].set, "block 1"), ElementsAre("a"));
  EXPECT_EQ(Filled(built[0].set)[1].second, Range(0, toy::kBlockSet));
}

TEST(FirstProductsTest, RowsThatLieApart_AreFilled) {
  LayerGraph graph = GraphWithProducts(/*tied=*/false);
  for (Op& op : graph.templates[graph.layers[1].templates.backward].ops) {
    auto product = ops::FromOp<ops::MatMul>(op);
    if (!product.ok()) continue;
    product->n -= 1;
    product->ldc = product->n + 1;
    op.ints = ops::ToOp(*product).ints;
    op.operands[2].bytes -= 4;
  }
  const std::vector<StagePrograms> built = Build(graph, OneRank(1));
  ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
  EXPECT_THAT(ProductsOf(built[0].set, "block 1"), ElementsAre("a"));
}

TEST(FirstProductsTest, LayersOfOneKind_ShareTheTemplateThatWrites) {
  const StagePrograms built = Build(GraphWithProducts(/*tied=*/false), OneRank(2, 2))[0];
  std::vector<std::string> writing;
  for (const Template& tmpl : built.set.templates) {
    if (absl::EndsWith(tmpl.name, ", first")) writing.push_back(tmpl.name);
  }
  EXPECT_THAT(writing, ElementsAre("head backward, first", "block backward, first"));
}

TEST(FirstProductsTest, ProductThatWrites_IsPredictedToTakeLess) {
  const StagePrograms built = Build(GraphWithProducts(/*tied=*/false), OneRank(2))[0];
  const RateCostModel costs({.flops_per_second = 1e15});
  std::vector<double> seconds;
  for (const Template& tmpl : built.set.templates) {
    if (!absl::StartsWith(tmpl.name, "block backward")) continue;
    for (const Op& op : tmpl.ops) {
      if (ops::FromOp<ops::MatMul>(op).ok()) seconds.push_back(costs.OpSeconds(op));
    }
  }
  ASSERT_EQ(seconds.size(), 3);  // backward, its second half, and the first backward
  EXPECT_GT(seconds[0], seconds[2]);
}

TEST(FirstProductsTest, ProductThatAddsToWhatNothingWrote_IsRefused) {
  std::vector<StagePrograms> built = Build(GraphWithProducts(/*tied=*/false), OneRank(2));
  for (Template& tmpl : built[0].set.templates) {
    if (tmpl.name != "block backward, first") continue;
    for (Op& op : tmpl.ops) {
      if (ops::FromOp<ops::MatMul>(op).ok()) op.operands[2].access = Access::kAccumulate;
    }
  }
  EXPECT_THAT(VerifyAll(built).message(), HasSubstr("gradient of block"));
}

TEST(FirstProductsTest, EveryShardingAndOrder_IsVerified) {
  for (const int data : {1, 2, 4}) {
    for (const int level : {0, 1, 2, 3}) {
      for (const int64_t leaves : {0, 4, 8}) {
        for (const MicroOrder order : {MicroOrder::kDepthFirst, MicroOrder::kLayerFirst}) {
          for (const bool tied : {false, true}) {
            Plan plan = OneRank(8, leaves);
            plan.groups = {.data = data, .shard = level > 0 ? data : 1};
            plan.shard = static_cast<ShardLevel>(level);
            plan.micro_order = order;
            const std::vector<StagePrograms> built = Build(GraphWithProducts(tied), plan);
            ASSERT_FALSE(built.empty());
            const absl::Status status = VerifyAll(built);
            ASSERT_TRUE(status.ok()) << data << " " << level << " " << leaves << ": " << status;
            for (const std::string& call : ProductsOf(built[0].set, "block 1")) {
              EXPECT_TRUE(call == "w" || call == "a");
            }
            EXPECT_EQ(ProductsOf(built[0].set, "block 1")[0], "w");
          }
        }
      }
    }
  }
}

TEST(FirstProductsTest, EveryPipelineSchedule_IsVerified) {
  for (const ScheduleKind schedule :
       {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kZeroBubble}) {
    for (const bool tied : {false, true}) {
      Plan plan = OneRank(4);
      plan.groups.pipeline = 2;
      plan.schedule = schedule;
      const std::vector<StagePrograms> built = Build(GraphWithProducts(tied), plan);
      ASSERT_EQ(built.size(), 2);
      const absl::Status status = VerifyAll(built);
      ASSERT_TRUE(status.ok()) << static_cast<int>(schedule) << ": " << status;
      EXPECT_THAT(ProductsOf(built[0].set, "block 0"), ElementsAre("w", "a", "a", "a"));
    }
  }
}

TEST(FirstProductsTest, GradientsAtHomeElsewhere_AreVerified) {
  const Place host = {.host = 1}, ssd = {.ssd = 1};
  for (const Place& home : {host, ssd}) {
    for (const bool tied : {false, true}) {
      Plan plan = OneRank(4, 2);
      plan.places = {.gradients = home};
      plan.update = UpdatePolicy::kSpooled;
      plan.tier = Tier::kDevice;
      const std::vector<StagePrograms> built = Build(GraphWithProducts(tied), plan);
      ASSERT_FALSE(built.empty());
      ASSERT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
      EXPECT_THAT(ProductsOf(built[0].set, "block 1"), ElementsAre("w", "a", "w", "a"));
    }
  }
}

}  // namespace
}  // namespace strata::program
