#include "scheduler/placement/llama3.h"

#include <gtest/gtest.h>

#include "scheduler/placement/validate.h"

namespace strata::scheduler {
namespace {

TEST(Place, OfLlama3SendsNoMoreAcrossZonesThanTheContiguousOrder) {
  const topology::Cluster cluster = PodsOf(8, 192);
  const Occupancy occupancy = Occupancy::Now(cluster);
  const Shape shape = Llama3Shape();
  const auto placement = Place(cluster, occupancy, shape);
  ASSERT_TRUE(placement.has_value());
  const absl::Status valid = Validate(cluster, occupancy, shape, *placement);
  EXPECT_TRUE(valid.ok()) << valid;
  EXPECT_EQ(placement->cost.split_pipelines, 0);
  // Six zones: every one of 128 rings leaves each of them once, with 18.9 GB.
  EXPECT_NEAR(placement->cost.bytes[0], 14.5e12, 0.1e12);
  for (const Comparison& other : CompareOrders(cluster, shape, *placement)) {
    EXPECT_LE(placement->cost.bytes[0], other.cost.bytes[0] * (1 + 1e-9)) << other.name;
    if (other.name != "contiguous") {
      EXPECT_GT(other.cost.bytes[0], 60e12) << other.name;
    }
  }
}

}  // namespace
}  // namespace strata::scheduler
