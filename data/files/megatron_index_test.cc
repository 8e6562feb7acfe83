#include "data/files/megatron_index.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "data/testing.h"
#include "data/token_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string GoldenBytes(const std::string& name) {
  std::ostringstream bytes;
  bytes << std::ifstream("data/files/goldens/" + name, std::ios::binary).rdbuf();
  return bytes.str();
}

template <typename T>
std::string With(std::string bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  return bytes;
}

class MegatronIndexTest : public ::testing::Test {
 protected:
  std::string WhyNot(const std::string& index) {
    folder_.Write("m.bin", GoldenBytes("megatron.bin"));
    const std::string path = folder_.Write("m.idx", index);
    const absl::Status status = OpenTokenSource(path).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": "));
    return std::string(status.message());
  }
  const TemporaryFolder folder_;
  // 34 bytes, then lengths from 34, pointers from 46, boundaries from 70 to 102.
  const std::string good_ = GoldenBytes("megatron.idx");
};

TEST_F(MegatronIndexTest, Open_DamagedHeader_SaysWhatIsWrong) {
  ASSERT_EQ(good_.size(), 102u);
  EXPECT_THAT(WhyNot(good_.substr(0, 33)), HasSubstr("header is cut short"));
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 9, 2)), HasSubstr("version 2"));
  EXPECT_THAT(WhyNot(With<char>(good_, 17, 7)), HasSubstr("type code 7"));
  for (const uint64_t much : {uint64_t{4}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_THAT(WhyNot(With(good_, 18, much)), HasSubstr("do not fit"));
    EXPECT_THAT(WhyNot(With(good_, 26, much + 1)), HasSubstr("do not fit"));
  }
  EXPECT_THAT(WhyNot(good_ + "1"), HasSubstr("do not fit"));
  EXPECT_THAT(WhyNot(good_.substr(0, 101)), HasSubstr("do not fit"));
}

TEST_F(MegatronIndexTest, Open_SequencesThatDoNotFitTheData_SaysWhich) {
  EXPECT_THAT(WhyNot(With<int32_t>(good_, 38, -1)), HasSubstr("sequence 1 has -1 tokens"));
  EXPECT_THAT(WhyNot(With<int32_t>(good_, 42, 10)), HasSubstr("sequence 2 ends at token 22"));
  EXPECT_THAT(WhyNot(With<int32_t>(good_, 42, 8)), HasSubstr("have 20 tokens"));
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 54, 12)),
              AllOf(HasSubstr("sequence 1 begins at byte 12"), HasSubstr("not at 10")));
}

TEST_F(MegatronIndexTest, Open_DamagedBoundaries_SaysWhich) {
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 70, 1)), HasSubstr("boundary 0"));
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 86, 0)), HasSubstr("boundary 2"));
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 94, 4)), HasSubstr("boundary 3"));
  EXPECT_THAT(WhyNot(With<int64_t>(good_, 94, 2)), HasSubstr("end with sequence 2 of 3"));
}

TEST_F(MegatronIndexTest, Open_SequenceThatIsNoText_IsRefused) {
  EXPECT_THAT(WhyNot(good_ + std::string("\0\1\0", 3)), HasSubstr("sequence 1 has mode 1"));
}

TEST_F(MegatronIndexTest, Open_WithoutItsData_NamesTheMissingFile) {
  const absl::Status status = OpenTokenSource(folder_.Write("alone.idx", good_)).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("alone.bin: no such file"));
}

}  // namespace
}  // namespace strata::data
