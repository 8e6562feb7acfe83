#include "checkpoint/safetensors.h"

#include <cmath>
#include <cstring>

#include "checkpoint/testing.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::HasSubstr;

// A file of the given header, with `data_bytes` bytes behind it.
std::string FileOf(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + std::string(data_bytes, '\x01');
}

class SafetensorsTest : public ::testing::Test {
 protected:
  absl::Status OpenText(const std::string& content) {
    WriteFile(path_, content);
    return SafetensorsReader::Open(path_).status();
  }
  // Why a file with this header is refused; empty if it is not.
  std::string Refusal(const std::string& header, size_t data_bytes = 8) {
    const absl::Status status = OpenText(FileOf(header, data_bytes));
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  std::unique_ptr<SafetensorsWriter> Create(std::vector<SafetensorsEntry> entries,
                                            const SafetensorsMetadata& metadata = {}) {
    auto writer = SafetensorsWriter::Create(*PosixFileSystem()->CreateFile(path_),
                                            std::move(entries), metadata);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/t.safetensors";
};

TEST_F(SafetensorsTest, Writer_SmallFile_IsExactlyTheFormat) {
  auto writer = Create({{"b", DType::kU8, {3}}, {"a\"", DType::kF32, {1, 2}}}, {{"k", "v"}});
  ASSERT_EQ(writer->entries()[0].name, "a\"");  // wider types come first
  ASSERT_TRUE(writer->Append("AAAABBBB", 8).ok());
  ASSERT_TRUE(writer->Append("xyz", 3).ok());
  ASSERT_TRUE(writer->Finish().ok());
  std::string header =
      R"({"__metadata__":{"k":"v"},"a\"":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string content = ReadFile(path_);
  EXPECT_EQ(content, FileOf(header, 0) + "AAAABBBBxyz");
  EXPECT_EQ(writer->digest(), common::DigestOf(content));
  EXPECT_EQ(writer->size_bytes(), static_cast<int64_t>(content.size()));
}

TEST_F(SafetensorsTest, Reader_WhatTheWriterWrote_GivesItBack) {
  const std::vector<SafetensorsEntry> entries = {{"scalar", DType::kF64, {}},
                                                 {"none", DType::kF32, {0, 4}},
                                                 {"half", DType::kBF16, {2, 3}},
                                                 {"ü", DType::kI64, {2}}};
  auto writer = Create(entries, {{"format", "pt"}});
  std::string data;
  for (int i = 0; i < 8 + 16 + 12; ++i) data.push_back(static_cast<char>(i));
  ASSERT_TRUE(writer->Append(data.data(), data.size()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->metadata().at("format"), "pt");
  ASSERT_EQ((*reader)->entries().size(), 4u);
  for (const SafetensorsEntry& entry : entries) {
    const SafetensorsEntry* const found = (*reader)->Find(entry.name);
    ASSERT_NE(found, nullptr) << entry.name;
    EXPECT_EQ(found->dtype, entry.dtype);
    EXPECT_EQ(found->shape, entry.shape);
  }
  char tail[4];
  ASSERT_TRUE((*reader)->ReadBytes(*(*reader)->Find("half"), 8, 4, tail).ok());
  EXPECT_EQ(std::string(tail, 4), data.substr(8 + 16 + 8));
  EXPECT_EQ((*reader)->Find("nobody"), nullptr);
  EXPECT_EQ(*(*reader)->DigestWholeFile(), writer->digest());
  EXPECT_EQ((*reader)->header_digest(), writer->header_digest());
}

TEST_F(SafetensorsTest, Writer_MisuseAndBadNames_AreRefused) {
  EXPECT_FALSE(Create({{"a", DType::kF32, {2}}})->Finish().ok());  // no data
  EXPECT_FALSE(Create({{"a", DType::kF32, {1}}})->Append("12345", 5).ok());
  const auto refused = [&](std::vector<SafetensorsEntry> entries) {
    return !SafetensorsWriter::Create(*PosixFileSystem()->CreateFile(path_), std::move(entries), {})
                .ok();
  };
  EXPECT_TRUE(refused({{"a", DType::kF32, {1}}, {"a", DType::kU8, {1}}}));
  EXPECT_TRUE(refused({{"__metadata__", DType::kF32, {1}}}));
  EXPECT_TRUE(refused({{"\xff", DType::kF32, {1}}}));
  EXPECT_TRUE(refused({{"a", DType::kF32, {-1}}}));
  EXPECT_TRUE(refused({{"a", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}));
  EXPECT_TRUE(refused({{"a", DType::kF32, {int64_t{1} << 61}}}));
}

TEST_F(SafetensorsTest, Reader_HeadersThatTheFormatForbids_AreRefusedWithTheReason) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(Refusal(good), "");
  EXPECT_EQ(Refusal(good + "   "), "");
  EXPECT_EQ(Refusal("{}", 0), "");
  const auto tensor = [](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  const std::string f32 = R"("dtype":"F32",)";
  const std::pair<std::string, std::string> cases[] = {
      {" " + good, "does not begin with {"},
      {good + "x", "no valid JSON"},
      {good.substr(0, 20), "no valid JSON"},
      {R"({"a":"\ud800"})", "no valid JSON"},
      {"{\"\xff\":1}", "no valid JSON"},
      {"[]", "does not begin with {"},
      {"{}", "hold 0 bytes of data, the file 8"},
      {R"({"a":1})", "a number is no value here"},
      {R"({"a":{}})", "needs dtype, shape and data_offsets"},
      {tensor(f32 + R"("shape":[2],"data_offsets":[0,8],"more":1)"), "unknown field \"more\""},
      {tensor(f32 + f32 + R"("shape":[2],"data_offsets":[0,8])"), "\"dtype\" twice"},
      {tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), "\"F33\" is not supported"},
      {tensor(R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])"), "a list is no value"},
      {tensor(f32 + R"("shape":[-2],"data_offsets":[0,8])"), "negative"},
      {tensor(f32 + R"("shape":[2.0],"data_offsets":[0,8])"), "not a whole one"},
      {tensor(f32 + R"("shape":[[2]],"data_offsets":[0,8])"), "a list is no value"},
      {tensor(f32 + R"("shape":["2"],"data_offsets":[0,8])"), "a text is no value"},
      {tensor(f32 + R"("shape":2,"data_offsets":[0,8])"), "a number is no value"},
      {tensor(f32 + R"("shape":[3],"data_offsets":[0,8])"), "hold 8 bytes, its shape needs 12"},
      {tensor(f32 + R"("shape":[2],"data_offsets":[8,0])"), "backwards"},
      {tensor(f32 + R"("shape":[2],"data_offsets":[0,8,9])"), "must be two"},
      {tensor(f32 + R"("shape":[2],"data_offsets":[4,12])"), "begins at byte 4, where byte 0"},
      {tensor(f32 + R"("shape":[4],"data_offsets":[0,16])"), "hold 16 bytes of data, the file 8"},
      {tensor(f32 + R"("shape":[1],"data_offsets":[0,4])"), "hold 4 bytes of data, the file 8"},
      {tensor(f32 + R"("shape":[4611686018427387904,4],"data_offsets":[0,8])"), "2^63 - 1"},
      {tensor(f32 + R"("shape":[4611686018427387904],"data_offsets":[0,8])"), "2^63 - 1 bytes"},
      {tensor(f32 + R"("shape":[18446744073709551615],"data_offsets":[0,8])"), "2^63 - 1"},
      {tensor(f32 + R"("shape":[99999999999999999999],"data_offsets":[0,8])"), "below 2^63"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "name \"a\" twice"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
       "begins at byte 3, where byte 4"},
      {R"({"__metadata__":{"a":1}})", "a number is no value"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "key \"a\" twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "\"__metadata__\" twice"},
      {R"({"__metadata__":"x"})", "a text is no value"},
      {R"({"a":{"dtype":{"x":1}}})", "an object is no value"},
      {R"({"a":null})", "null"},
      {R"({"a":true})", "boolean"},
  };
  for (const auto& [header, reason] : cases)
    EXPECT_THAT(Refusal(header), HasSubstr(reason)) << header;
  EXPECT_THAT(Refusal(std::string(5'000'000, '[').replace(0, 1, "{\"a\":{\"shape\":")),
              HasSubstr("list"));
}

TEST_F(SafetensorsTest, Reader_BadLengths_AreRefused) {
  EXPECT_THAT(std::string(OpenText("").message()), HasSubstr("shorter than 8 bytes"));
  EXPECT_THAT(std::string(OpenText("1234567").message()), HasSubstr("shorter than 8 bytes"));
  EXPECT_THAT(std::string(OpenText(std::string(8, '\xff')).message()), HasSubstr("at most"));
  EXPECT_THAT(std::string(OpenText(FileOf("{}", 0).substr(0, 9)).message()),
              HasSubstr("longer than"));
  EXPECT_TRUE(absl::IsNotFound(SafetensorsReader::Open(path_ + "x").status()));
  EXPECT_FALSE(SafetensorsReader::Open(folder_.path()).ok());
}

// Deterministic mutation fuzzing: whatever opens can be read; nothing crashes (the sanitizers
// look).
TEST_F(SafetensorsTest, Reader_ThousandsOfMutations_NeverCrashes) {
  const std::string seed =
      FileOf(R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
             R"("y\n":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]},)"
             R"("z":{"dtype":"I64","shape":[0,3],"data_offsets":[16,16]}}    )",
             16);
  ASSERT_TRUE(OpenText(seed).ok());
  const std::string parts[] = {"9223372036854775807",
                               "18446744073709551616",
                               "-1",
                               "{",
                               "[",
                               "\"",
                               ",",
                               "}",
                               "]",
                               ":",
                               "1e9",
                               "null",
                               "\\u0000",
                               "shape"};
  int opened = 0;
  for (uint64_t round = 0; round < 4000; ++round) {
    std::string file = seed;
    const auto words = common::Philox(7, round, 0);
    for (uint32_t change = 0; change < 1 + words[3] % 3; ++change) {
      const auto random = common::Philox(8, round, change);
      if (file.empty()) break;
      const size_t at = random[0] % file.size();
      const std::string& part = parts[random[1] % std::size(parts)];
      switch (random[2] % 5) {
        case 0:
          file[at] = static_cast<char>(file[at] ^ (1 << random[1] % 8));
          break;
        case 1:
          file.resize(at);
          break;
        case 2:
          file.erase(at, 1 + random[1] % 9);
          break;
        case 3:
          file.insert(at, part);
          break;
        default:
          file.replace(at, std::min(part.size(), file.size() - at), part);
          break;
      }
    }
    // Half of them with a length that fits, so that the header is looked at.
    if (round % 2 == 0 && file.size() > 24) {
      const uint64_t length = file.size() - 24;
      std::memcpy(file.data(), &length, sizeof(length));
    }
    WriteFile(path_, file);
    const auto reader = SafetensorsReader::Open(path_);
    if (!reader.ok()) continue;
    ++opened;
    for (const SafetensorsEntry& entry : (*reader)->entries()) {
      std::string data(static_cast<size_t>(entry.size_bytes), '\0');
      EXPECT_TRUE((*reader)->ReadBytes(entry, 0, entry.size_bytes, data.data()).ok());
    }
  }
  EXPECT_GT(opened, 50);
  EXPECT_LT(opened, 3500);
}

TEST(DTypeTest, WidenToFloat_HalfAndBFloat_AreExact) {
  const uint16_t half[] = {0x0000, 0x8000, 0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00, 0x7e00};
  float out[9];
  ASSERT_TRUE(WidenToFloat(DType::kF16, half, 9, out));
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_TRUE(std::signbit(out[1]) && out[1] == 0.0f);
  EXPECT_EQ(out[2], 1.0f);
  EXPECT_EQ(out[3], -2.0f);
  EXPECT_EQ(out[4], 0x1p-24f);
  EXPECT_EQ(out[5], 1023 * 0x1p-24f);
  EXPECT_EQ(out[6], 65504.0f);
  EXPECT_TRUE(std::isinf(out[7]));
  EXPECT_TRUE(std::isnan(out[8]));
  const uint16_t brain[] = {0x3f80, 0xc000};
  ASSERT_TRUE(WidenToFloat(DType::kBF16, brain, 2, out));
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_FALSE(WidenToFloat(DType::kI32, half, 1, out));
}

TEST(DTypeTest, Names_AllTypes_RoundTrip) {
  for (const char* name : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "I16", "U16", "F16", "BF16",
                           "I32", "U32", "F32", "F64", "I64", "U64"}) {
    const std::optional<DType> dtype = DTypeFromName(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_STREQ(NameOf(*dtype), name);
  }
  EXPECT_FALSE(DTypeFromName("F4").has_value());
}

}  // namespace
}  // namespace strata::checkpoint
