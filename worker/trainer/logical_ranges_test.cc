#include "worker/trainer/logical_ranges.h"

#include <map>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

program::ParameterSet Set(int64_t ranges) {
  program::ParameterSet set;
  set.name = "block";
  set.tensors = {{.name = "norm", .shape = {5}},
                 {.name = "qkv", .shape = {7, 3}, .parts = {{"q", 4}, {"k", 2}, {"v", 1}}},
                 {.name = "o", .shape = {3, 3}}};
  program::FlattenSet(set, ranges);
  return set;
}

TEST(LogicalRangesTest, TheWholeSetIsEveryTensorOnce) {
  const program::ParameterSet set = Set(1);
  const std::vector<LogicalRange> ranges = LogicalRanges(set, 0, set.elements);
  ASSERT_EQ(ranges.size(), 5u);
  EXPECT_EQ(ranges[0].name, "norm");
  EXPECT_EQ(ranges[2].name, "k");
  EXPECT_EQ(ranges[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(ranges[2].begin, 0);
  EXPECT_EQ(ranges[2].end, 6);
  EXPECT_EQ(ranges[2].flat_begin, set.tensors[1].offset + 12);
}

TEST(LogicalRangesTest, EqualPartsOfTheLayoutCoverEveryElementOnce) {
  for (const int64_t parts : {1, 2, 4, 8}) {
    const program::ParameterSet set = Set(parts);
    std::map<std::string, int64_t> next;  // per tensor: how far it is covered
    const int64_t size = set.elements / parts;
    for (int64_t part = 0; part < parts; ++part) {
      for (const LogicalRange& range : LogicalRanges(set, part * size, (part + 1) * size)) {
        EXPECT_EQ(range.begin, next[range.name]);
        EXPECT_GE(range.flat_begin, part * size);
        EXPECT_LE(range.flat_begin + range.end - range.begin, (part + 1) * size);
        next[range.name] = range.end;
      }
    }
    EXPECT_EQ(next, (std::map<std::string, int64_t>{
                        {"norm", 5}, {"q", 12}, {"k", 6}, {"v", 3}, {"o", 9}}));
  }
}

// 13 rows on two ranks, in shares of 8: the last three rows of the second are no one's.
TEST(LogicalRangesTest, PaddingOfACutIsNoRange) {
  program::ParameterSet set;
  set.tensors = {{.name = "table",
                  .shape = {program::ShareOf(13, 2), 3},
                  .cut = {program::Group::kTensor, 0, 2, 3}},
                 {.name = "norm", .shape = {4}}};
  program::FlattenSet(set, 1);
  for (const int64_t rank : {0, 1}) {
    const std::vector<LogicalRange> ranges = LogicalRanges(set, 0, set.elements, rank);
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].shape, (std::vector<int64_t>{13, 3}));
    EXPECT_EQ(ranges[0].box->offset, (std::vector<int64_t>{rank * 8, 0}));
    EXPECT_EQ(ranges[0].box->extent, (std::vector<int64_t>{rank == 0 ? 8 : 5, 3}));
    EXPECT_EQ(ranges[0].end, rank == 0 ? 24 : 15);
    EXPECT_EQ(ranges[1].name, "norm");
    EXPECT_EQ(ranges[1].flat_begin, set.tensors[1].offset);
    int64_t elements = 0;
    for (const program::ElementRun& run : ElementRuns(set, rank, 0, set.elements)) {
      elements += run.count;
      if (run.tensor == 0) {
        EXPECT_EQ(run.first, rank * 24);
      }
    }
    EXPECT_EQ(elements, ranges[0].end + 4);
  }
  const std::vector<LogicalRange> padding =
      LogicalRanges(set, 15, set.tensors[1].offset, /*cut_index=*/1);
  EXPECT_TRUE(padding.empty());
}

}  // namespace
}  // namespace strata::worker
