#include "planner/evaluation/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<CsvTable> table = ReadCsv(text, "runs.csv");
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << text;
  return std::string(table.status().message());
}

TEST(ReadCsv, QuotedFieldsMayHoldCommasQuotesAndLines) {
  const auto table = ReadCsv("a,b\n\"x, \"\"y\"\"\nz\",2\n", "runs.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->columns, ElementsAre("a", "b"));
  ASSERT_EQ(table->records.size(), 1u);
  EXPECT_EQ(table->records[0][0].text, "x, \"y\"\nz");
  EXPECT_EQ(table->records[0][1].text, "2");
  EXPECT_EQ(table->records[0][1].line, 3);
  EXPECT_EQ(table->records[0][1].column, 4);
}

TEST(ReadCsv, WindowsLinesEmptyFieldsAndNoLastNewlineAreRead) {
  const auto table = ReadCsv(
      "\xEF\xBB\xBF"
      "a,b\r\n,\r\n\r\n1,",
      "runs.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->columns, ElementsAre("a", "b"));
  ASSERT_EQ(table->records.size(), 2u);
  EXPECT_EQ(table->records[0][0].text, "");
  EXPECT_EQ(table->records[1][0].text, "1");
}

TEST(ReadCsv, EachMistakeIsToldWithItsPlace) {
  EXPECT_THAT(ErrorOf("a,b\n1,\"2\n3,4\n"), HasSubstr("runs.csv:2:3: this quote has no end — "));
  EXPECT_THAT(ErrorOf("a,b\n\"1\"x,2\n"), HasSubstr("runs.csv:2:4: text after a field's closing"));
  EXPECT_THAT(ErrorOf("a,b\n1\",2\n"), HasSubstr("runs.csv:2:2: a quote inside a field"));
  EXPECT_THAT(ErrorOf("a,b\n1,2,3\n"), HasSubstr("runs.csv:2:5: this record has 3 fields"));
  EXPECT_THAT(ErrorOf("a,b\n1\n"), HasSubstr("runs.csv:2:1: this record has 1 fields"));
  EXPECT_THAT(ErrorOf("a,a\n"), HasSubstr("runs.csv:1:3: column a is there twice"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("runs.csv:1:1: the file is empty"));
}

}  // namespace
}  // namespace strata::planner
