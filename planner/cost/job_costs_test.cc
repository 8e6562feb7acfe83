#include "planner/cost/job_costs.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/matmul.h"
#include "ops/op_struct.h"

namespace strata::planner {
namespace {

NamedCosts CostsOn(const std::string& device, bool standin = false) {
  v1::JobSpec job;
  job.mutable_resources()->set_device(device);
  job.mutable_train()->set_precision(v1::TrainSpec::PRECISION_BF16);
  return CatalogCostsOf(Catalog::Shipped(), job, standin);
}

TEST(CatalogCostsOf, AreThoseOfTheKindThatTheJobNames) {
  const NamedCosts h200 = CostsOn("h200"), l4 = CostsOn("l4");
  ASSERT_TRUE(h200.model != nullptr && l4.model != nullptr);
  EXPECT_EQ(h200.name, "the catalog's figures of H200");
  const program::Op product = ops::ToOp(ops::MatMul{.m = 4096,
                                                    .n = 4096,
                                                    .k = 4096,
                                                    .type = program::DType::kBF16,
                                                    .out_type = program::DType::kBF16});
  EXPECT_GT(l4.model->OpSeconds(product), 5 * h200.model->OpSeconds(product));
}

TEST(CatalogCostsOf, NoneForKindsThatItLacks_AndNoneForTheStandIn) {
  for (const char* device : {"gpu", "cpu", "", "mi300x"}) {
    EXPECT_EQ(CostsOn(device).model, nullptr) << device;
  }
  EXPECT_EQ(CostsOn("h200", /*standin=*/true).model, nullptr);
}

}  // namespace
}  // namespace strata::planner
