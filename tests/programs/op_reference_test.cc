// docs/ops.md is the table of ops as text.
#include "gtest/gtest.h"
#include "ops/table.h"
#include "program/testing/golden.h"

namespace strata {
namespace {

TEST(OpReference, IsWhatTheTableSays) {
  EXPECT_EQ(program::CompareWithGolden("docs/ops.md", ops::Document()), "");
}

}  // namespace
}  // namespace strata
