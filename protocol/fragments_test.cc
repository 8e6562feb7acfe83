#include "protocol/fragments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::protocol {
namespace {

using testing::ElementsAre;

google::protobuf::Map<int32_t, std::string> Of(int32_t rank, const std::string& fragment) {
  google::protobuf::Map<int32_t, std::string> fragments;
  fragments[rank] = fragment;
  return fragments;
}

TEST(FragmentBookTest, ACheckpointIsWholeOnceAllRanksHaveWritten) {
  FragmentBook book;
  EXPECT_FALSE(book.Add(20, Of(1, "b"), 2).has_value());
  EXPECT_FALSE(book.Newest(2).has_value());
  const auto whole = book.Add(20, Of(0, "a"), 2);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->step, 20);
  EXPECT_THAT(whole->fragments, ElementsAre("a", "b"));
  EXPECT_TRUE(book.Add(20, Of(1, "b"), 2).has_value()) << "a repetition";
  EXPECT_EQ(book.Newest(2)->step, 20);
}

TEST(FragmentBookTest, RanksThatTheJobDoesNotHaveAreLeftOut) {
  FragmentBook book;
  book.Add(20, Of(-1, "x"), 2);
  book.Add(20, Of(2, "x"), 2);
  EXPECT_FALSE(book.Add(20, Of(0, "a"), 2).has_value());
  EXPECT_TRUE(book.Add(20, Of(1, "b"), 2).has_value());
}

TEST(FragmentBookTest, OnlyTheNewestStepsAreKept) {
  FragmentBook book;
  for (int64_t step = 10; step <= 50; step += 10) book.Add(step, Of(0, "a"), 2);
  EXPECT_FALSE(book.Has(10, {0}));
  EXPECT_TRUE(book.Has(20, {0}));
  EXPECT_EQ(book.CountAfter(20), 3);
  book.Forget(40);
  EXPECT_FALSE(book.Has(40, {0}));
  EXPECT_TRUE(book.HasAllOf({0}));
  EXPECT_FALSE(book.HasAllOf({0, 1}));
}

}  // namespace
}  // namespace strata::protocol
