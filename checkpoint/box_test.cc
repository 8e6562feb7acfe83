#include "checkpoint/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/random.h"

namespace strata::checkpoint {
namespace {

using ::testing::ElementsAre;

// The tensor's elements that a box holds, in its order.
std::vector<int64_t> ElementsOf(const Box& box, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> strides = DenseStrides(shape), own = DenseStrides(box.extent);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t element = 0, rest = i;
    for (size_t d = 0; d < shape.size(); ++d) {
      element += (box.offset[d] + rest / own[d]) * strides[d];
      rest %= own[d];
    }
    elements.push_back(element);
  }
  return elements;
}

Box BoxIn(const std::vector<int64_t>& shape, common::Random& random) {
  Box box;
  for (const int64_t size : shape) {
    box.offset.push_back(random.Chance(0.5) ? 0 : random.Below(size));
    box.extent.push_back(1 + random.Below(size - box.offset.back()));
  }
  return box;
}

std::vector<int64_t> ShapeOf(common::Random& random) {
  std::vector<int64_t> shape;
  for (int64_t d = random.Below(5); d > 0; --d) shape.push_back(1 + random.Below(7));
  return shape;
}

TEST(BoxTest, Runs_OfRandomBoxes_AreTheCommonElementsInBothOrders) {
  int several = 0;
  for (uint64_t round = 0; round < 2000; ++round) {
    common::Random random(round);
    const std::vector<int64_t> shape = ShapeOf(random);
    const Box from = BoxIn(shape, random), to = BoxIn(shape, random);
    const auto from_elements = ElementsOf(from, shape), to_elements = ElementsOf(to, shape);
    CommonRuns runs(from, to);
    int64_t last = -1, count = 0, number = 0;
    while (const auto run = runs.Next()) {
      ASSERT_GT(run->from, last);
      last = run->from;
      count += run->count;
      ++number;
      for (int64_t i = 0; i < run->count; ++i) {
        ASSERT_EQ(from_elements.at(static_cast<size_t>(run->from + i)),
                  to_elements.at(static_cast<size_t>(run->to + i)));
      }
    }
    const auto common = Intersect(from, to);
    ASSERT_EQ(count, common.has_value() ? common->elements() : 0);
    several += number > 1;
  }
  EXPECT_GT(several, 200);
}

TEST(BoxTest, Runs_WhereBothHoldWholeRows_AreOne) {
  CommonRuns runs(WholeBox({4, 3, 2}), {{1, 0, 0}, {2, 3, 2}});
  const auto run = runs.Next();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->from, 6);
  EXPECT_EQ(run->count, 12);
  EXPECT_FALSE(runs.Next().has_value());
}

TEST(BoxTest, BoxesOf_RandomRegions_FollowOneAnotherInTheirOrder) {
  for (uint64_t round = 0; round < 2000; ++round) {
    common::Random random(round);
    const std::vector<int64_t> shape = ShapeOf(random);
    Region region{BoxIn(shape, random), 0, 0};
    region.begin = random.Below(region.box.elements());
    region.end = region.begin + 1 + random.Below(region.box.elements() - region.begin);
    const auto all = ElementsOf(region.box, shape);
    std::vector<int64_t> found;
    const std::vector<Box> boxes = BoxesOf(region);
    for (const Box& box : boxes) {
      ASSERT_TRUE(IsInside(box, shape));
      for (const int64_t element : ElementsOf(box, shape)) found.push_back(element);
    }
    ASSERT_EQ(found, std::vector<int64_t>(all.begin() + region.begin, all.begin() + region.end));
    ASSERT_LE(boxes.size(), 2 * shape.size() + 1);
  }
}

TEST(BoxTest, IsInside_EdgesAndOverflow_AreToldApart) {
  EXPECT_TRUE(IsInside({{2, 0}, {2, 3}}, {4, 3}));
  EXPECT_TRUE(IsInside({{}, {}}, {}));
  EXPECT_FALSE(IsInside({{3, 0}, {2, 3}}, {4, 3}));
  EXPECT_FALSE(IsInside({{0}, {4}}, {4, 3}));
  EXPECT_FALSE(IsInside({{INT64_MAX, 0}, {INT64_MAX, 3}}, {4, 3}));
  EXPECT_FALSE(IsInside({{-1, 0}, {2, 3}}, {4, 3}));
  EXPECT_EQ(ToText({{2, 0}, {2, 3}}), "[2:4, 0:3]");
  EXPECT_THAT(DenseStrides({4, 3, 2}), ElementsAre(6, 2, 1));
}

}  // namespace
}  // namespace strata::checkpoint
