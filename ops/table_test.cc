// Each op's contract: its example is accepted, and whatever is changed in it is refused.
#include "ops/table.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/rope.h"

namespace strata::ops {
namespace {

using program::Access;
using program::Op;
using program::Operand;
using program::OpKind;

constexpr Access kAccesses[] = {Access::kRead, Access::kWrite, Access::kAccumulate};

// The example with operands, each in a slot of its own.
Op WholeExample(const OpEntry& entry) {
  Op op = entry.example;
  for (const OperandSpec& spec : entry.example_operands) {
    op.operands.push_back({.slot = static_cast<int>(op.operands.size()),
                           .bytes = spec.bytes(),
                           .access = spec.access});
  }
  return op;
}

class OpTable : public testing::TestWithParam<int> {
 protected:
  const OpEntry& entry_ = EntryOf(static_cast<OpKind>(GetParam()));
  const Op op_ = WholeExample(entry_);

  static void ExpectRefused(const Op& op, const std::string& what) {
    EXPECT_TRUE(absl::IsInvalidArgument(Check(op))) << what << ": " << Check(op);
  }
};

TEST_P(OpTable, ExampleIsAccepted_AlsoWithAWorkspaceWhereThereIsOne) {
  EXPECT_TRUE(Check(op_).ok()) << Check(op_);
  Op more = op_;
  more.operands.push_back({.slot = 99, .bytes = 64, .access = Access::kWrite});
  EXPECT_EQ(Check(more).ok(), entry_.has_workspace);
  more.operands.back().access = Access::kRead;
  ExpectRefused(more, "a workspace that is read");
  more.operands.back().access = Access::kWrite;
  more.operands.push_back(more.operands.back());
  ExpectRefused(more, "two operands too many");
}

TEST_P(OpTable, OperandMissingOrOfAnotherAccess_IsRefused) {
  for (size_t i = 0; i < op_.operands.size(); ++i) {
    for (const Access access : kAccesses) {
      if (access == op_.operands[i].access) continue;
      Op op = op_;
      op.operands[i].access = access;
      ExpectRefused(op, entry_.example_operands[i].name);
    }
  }
  Op op = op_;
  op.operands.pop_back();
  ExpectRefused(op, "the last operand is missing");
}

TEST_P(OpTable, OperandOfAnotherSize_IsRefused) {
  for (size_t i = 0; i < op_.operands.size(); ++i) {
    for (const int64_t change : {-1, 1}) {
      const bool larger = change > 0;
      Op op = op_;
      op.operands[i].bytes += change;
      if (larger && entry_.example_operands[i].at_least) {
        EXPECT_TRUE(Check(op).ok()) << entry_.example_operands[i].name;
      } else {
        ExpectRefused(op, entry_.example_operands[i].name);
      }
    }
  }
}

TEST_P(OpTable, AttributesMissingOrTooManyOrImpossible_AreRefused) {
  Op more = op_;
  more.ints.push_back(1);
  ExpectRefused(more, "an int too many");
  more = op_;
  more.floats.push_back(0.5);
  ExpectRefused(more, "a float too many");
  for (size_t i = 0; i < op_.ints.size(); ++i) {
    Op op = op_;
    op.ints[i] = -1;
    ExpectRefused(op, "a negative int");
    op = op_;
    op.ints.erase(op.ints.begin() + static_cast<std::ptrdiff_t>(i));
    ExpectRefused(op, "an int is missing");
  }
  for (size_t i = 0; i < op_.floats.size(); ++i) {
    Op op = op_;
    op.floats[i] = std::numeric_limits<double>::quiet_NaN();
    ExpectRefused(op, "not a number");
    op = op_;
    op.floats.erase(op.floats.begin() + static_cast<std::ptrdiff_t>(i));
    ExpectRefused(op, "a float is missing");
  }
}

TEST_P(OpTable, EveryIntThatNamesASizeChangesWhatOperandsMustBe) {
  // Flags, groups and absent row distances describe the same operands with other contents.
  const absl::StatusOr<OperandSpecs> before = entry_.operands(op_);
  ASSERT_TRUE(before.ok());
  for (size_t i = 0; i < op_.ints.size() && i < entry_.attributes.size(); ++i) {
    const std::string& name = entry_.attributes[i];
    if (name.ends_with("(ranges)")) break;  // the ints that are left
    const bool other = name.ends_with("(flag)") || name.ends_with("none)") || op_.ints[i] == 0;
    // Rows need not be whole sequences for rope; how many ranks share a head, whose turn it is in a
    // ring of how many, and how far ranks' parts are apart, are other matters.
    const bool rope = op_.kind == OpKind::kRope && name == "sequence";
    const bool ring =
        (op_.kind == OpKind::kAttentionPart || op_.kind == OpKind::kAttentionPartBackward) &&
        (name == "ranks" || name.starts_with("step"));
    if (other || rope || ring || name == "share" || name.starts_with("stride")) continue;
    Op op = op_;
    op.ints[i] *= 2;
    ExpectRefused(op, name);
  }
}

TEST_P(OpTable, CostIsPositiveAndFollowsTheFormula) {
  const absl::StatusOr<Cost> cost = entry_.cost(op_);
  ASSERT_TRUE(cost.ok());
  EXPECT_GT(cost->bytes, 0);
  EXPECT_EQ(cost->flops, op_.flops);
  EXPECT_EQ(cost->flops > 0, entry_.flops != nullptr);
}

TEST_P(OpTable, WorkspaceGrowsWithThreadsAtMost) {
  const absl::StatusOr<int64_t> one = entry_.workspace_bytes(op_, {.threads = 1});
  const absl::StatusOr<int64_t> four = entry_.workspace_bytes(op_, {.threads = 4});
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_LE(*one, *four);
  EXPECT_LE(*four, 4 * *one);
  if (!entry_.has_workspace) {
    EXPECT_EQ(*one, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpTable, testing::Range(0, program::kOpKindCount),
                         [](const auto& info) {
                           std::string name = Name(static_cast<OpKind>(info.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(OpStruct, FromOpGivesBackWhatToOpWrote) {
  const MatMul written = {
      .m = 3, .n = 4, .k = 5, .trans_a = true, .accumulate = true, .lda = 7, .ldc = 9};
  const absl::StatusOr<MatMul> read = FromOp<MatMul>(ToOp(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToOp(*read).ints, (std::vector<int64_t>{3, 4, 5, 1, 0, 1, 7, 0, 9}));
  EXPECT_EQ(ToOp(*read).flops, 2.0 * 3 * 4 * 5);
  // Stored [5, 3] with rows 7 apart; [5, 4] dense; [3, 4] with rows 9 apart.
  EXPECT_EQ(read->Operands()[MatMul::kA].elements, 4 * 7 + 3);
  EXPECT_EQ(read->Operands()[MatMul::kB].elements, 20);
  EXPECT_EQ(read->Operands()[MatMul::kC].elements, 2 * 9 + 4);
}

TEST(OpStruct, AnotherKindIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(FromOp<Rope>(ToOp(MatMul::Example())).status()));
}

TEST(OpStruct, ValidationNamesWhatIsWrong) {
  MatMul product = MatMul::Example();
  product.ldc = 5;  // rows of c have 6
  EXPECT_EQ(FromOp<MatMul>(ToOp(product)).status().message(),
            "a row distance is shorter than its row");
  product.ldc = 0;
  product.k = 0;
  EXPECT_EQ(FromOp<MatMul>(ToOp(product)).status().message(), "k is 0, at least 1 is needed");
  Rope rope = Rope::Example();
  rope.use_position = true;
  rope.rows = 2 * rope.sequence;
  EXPECT_FALSE(FromOp<Rope>(ToOp(rope)).ok());
}

}  // namespace
}  // namespace strata::ops
