#include "data/tokenizer/merge_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

// The definition: of all pairs that merge the one of the smallest rank, the leftmost of those.
std::vector<int32_t> MergeByDefinition(const MergeTable& table, std::vector<int32_t> symbols) {
  for (;;) {
    uint64_t best = MergeTable::kNone;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint64_t merge = table.Find(symbols[i], symbols[i + 1]);
      if (merge < best) best = merge, at = i;
    }
    if (best == MergeTable::kNone) return symbols;
    symbols[at] = static_cast<int32_t>(best & 0xFFFFFFFF);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::vector<int32_t> Merge(const MergeTable& table, std::vector<int32_t> symbols) {
  MergeScratch scratch;
  TokenBuffer out;
  table.Merge(symbols.data(), symbols.size(), &scratch, &out);
  return {out.data(), out.data() + out.size()};
}

// Merges of random pairs of what there is, from `alphabet` symbols on.
MergeTable RandomTable(int alphabet, int merges, uint64_t seed) {
  MergeTable table;
  common::Random random(seed);
  for (int i = 0; i < merges; ++i) {
    const auto known = static_cast<uint64_t>(alphabet + i);
    // Small ones are likelier: they come up in words.
    const auto pick = [&] {
      return static_cast<int32_t>(random.Next() % (1 + random.Next() % known));
    };
    table.Add(pick(), pick(), static_cast<uint32_t>(i), alphabet + i);
  }
  return table;
}

TEST(MergeTableTest, Merge_WordsOfAllLengths_AsDefined) {
  common::Random random(3);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const MergeTable table = RandomTable(4, 60, seed);
    for (size_t length : {0, 1, 2, 3, 5, 20, 95, 96, 97, 98, 150, 400}) {
      std::vector<int32_t> symbols(length);
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random.Next() % 4);
      ASSERT_EQ(Merge(table, symbols), MergeByDefinition(table, symbols)) << length;
    }
  }
}

TEST(MergeTableTest, Add_ThePairAgain_TheLastRankCounts) {
  MergeTable table;
  table.Add(1, 2, 0, 10);
  table.Add(2, 3, 1, 11);
  EXPECT_EQ(Merge(table, {1, 2, 3}), (std::vector<int32_t>{10, 3}));
  table.Add(1, 2, 2, 10);
  EXPECT_EQ(Merge(table, {1, 2, 3}), (std::vector<int32_t>{1, 11}));
}

TEST(MergeTableTest, Merge_AMillionEqualSymbols_TakesNoQuadraticTime) {
  MergeTable table;
  for (int32_t i = 0; i < 10; ++i) table.Add(i, i, static_cast<uint32_t>(i), i + 1);
  const std::vector<int32_t> merged = Merge(table, std::vector<int32_t>(1 << 20, 0));
  EXPECT_EQ(merged, std::vector<int32_t>(1 << 10, 10));
}

}  // namespace
}  // namespace strata::data
