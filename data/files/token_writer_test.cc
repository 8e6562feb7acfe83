#include "data/files/token_writer.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/testing.h"
#include "data/token_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kCount = 21;
constexpr int kEnds[] = {5, 12, 21};

std::string Slurp(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

// The documents of the goldens from number `first` on; `masked` as theirs.
absl::Status WriteGolden(TokenWriter& writer, int first, int last, int vocabulary, bool masked) {
  for (int d = first; d < last; ++d) {
    std::vector<int32_t> tokens;
    std::vector<uint8_t> trained;
    for (int i = d == 0 ? 0 : kEnds[d - 1]; i < kEnds[d]; ++i) {
      tokens.push_back(i * 7919 % vocabulary);
      trained.push_back(!masked || i % 3 != 0);
    }
    if (absl::Status status = writer.Append(tokens, trained); !status.ok()) return status;
    if (absl::Status status = writer.EndDocument(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

class TokenWriterTest : public ::testing::Test {
 protected:
  absl::Status Write(const TokenFile& file, int vocabulary, bool masked) {
    auto writer = TokenWriter::Open(file, {});
    if (!writer.ok()) return writer.status();
    if (absl::Status s = WriteGolden(**writer, 0, 3, vocabulary, masked); !s.ok()) return s;
    return (*writer)->Finish();
  }
  size_t FilesLeft() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.Path(""))) {
      static_cast<void>(entry);
      ++count;
    }
    return count;
  }
  const TemporaryFolder folder_;
};

TEST_F(TokenWriterTest, Finish_EveryFormat_MakesTheBytesOfTheIndependentWriter) {
  struct {
    TokenFormat format;
    int vocabulary;
    const char* path;
    std::vector<std::pair<const char*, const char*>> files;  // ours, golden
  } const cases[] = {
      {TokenFormat::kLlmq,
       128256,
       "a.bin",
       {{"a.bin", "llmq_v2.bin"}, {"a.bin.documents", "llmq_v2.bin.documents"}}},
      {TokenFormat::kLlmc,
       50257,
       "b.bin",
       {{"b.bin", "llmc_gpt2.bin"}, {"b.bin.documents", "llmq_v2.bin.documents"}}},
      {TokenFormat::kLlmc,
       128256,
       "c.bin",
       {{"c.bin", "llmc_llama3.bin"}, {"c.bin.documents", "llmq_v2.bin.documents"}}},
      {TokenFormat::kU16,
       50257,
       "d.bin",
       {{"d.bin", "raw.bin"}, {"d.bin.documents", "llmq_v2.bin.documents"}}},
      {TokenFormat::kMegatron,
       50257,
       "e.idx",
       {{"e.idx", "megatron.idx"}, {"e.bin", "megatron.bin"}}},
      {TokenFormat::kMegatron,
       128256,
       "f",
       {{"f.idx", "megatron_wide.idx"}, {"f.bin", "megatron_wide.bin"}}},
  };
  size_t files = 0;
  for (const auto& c : cases) {
    const absl::Status status = Write({folder_.Path(c.path), c.format, c.vocabulary}, c.vocabulary,
                                      c.format == TokenFormat::kLlmq);
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& [name, golden] : c.files) {
      EXPECT_EQ(Slurp(folder_.Path(name)), Slurp(std::string("data/files/goldens/") + golden))
          << name;
    }
    files += c.files.size();
  }
  EXPECT_EQ(FilesLeft(), files);  // no parts
}

TEST_F(TokenWriterTest, Open_AfterACrashAtAnyDocument_MakesTheSameBytes) {
  for (const auto format :
       {TokenFormat::kLlmq, TokenFormat::kU16, TokenFormat::kLlmc, TokenFormat::kMegatron}) {
    const TokenFile whole{folder_.Path("whole.bin"), format, 50257};
    const bool masked = format == TokenFormat::kLlmq;
    ASSERT_TRUE(Write(whole, 50257, masked).ok());
    for (int cut = 0; cut <= 3; ++cut) {
      const TokenFile file{folder_.Path("again.bin"), format, 50257};
      TokenWriter::Position at;
      {
        auto writer = TokenWriter::Open(file, {});
        ASSERT_TRUE(writer.ok()) << writer.status();
        ASSERT_TRUE(WriteGolden(**writer, 0, cut, 50257, masked).ok());
        ASSERT_TRUE((*writer)->Sync().ok());
        at = (*writer)->position();
        ASSERT_TRUE(WriteGolden(**writer, cut, 3, 999, false).ok());  // lost, but in the files
        ASSERT_TRUE((*writer)->Sync().ok());
      }
      auto writer = TokenWriter::Open(file, at);
      ASSERT_TRUE(writer.ok()) << writer.status();
      ASSERT_TRUE(WriteGolden(**writer, cut, 3, 50257, masked).ok());
      ASSERT_TRUE((*writer)->Finish().ok());
      for (const char* ending : {".bin", ".idx", ".bin.documents"}) {
        EXPECT_EQ(Slurp(folder_.Path(std::string("again") + ending)),
                  Slurp(folder_.Path(std::string("whole") + ending)))
            << ending << " cut " << cut;
      }
    }
  }
}

TEST_F(TokenWriterTest, Finish_ReadBack_GivesTokensMasksAndDocuments) {
  const TokenFile file{folder_.Path("x"), TokenFormat::kLlmq, 50257};
  ASSERT_TRUE(Write(file, 50257, true).ok());
  const auto source = OpenTokenSource(PathForJobs(file));
  ASSERT_TRUE(source.ok()) << source.status();
  int32_t tokens[kCount];
  ASSERT_TRUE((*source)->Read(0, kCount, tokens).ok());
  ASSERT_TRUE((*source)->MaskTargets(0, kCount, tokens).ok());
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(tokens[i], i % 3 == 0 ? -1 : i * 7919 % 50257);
  EXPECT_THAT(*(*source)->DocumentEnds(), ElementsAre(5, 12, 21));
}

TEST_F(TokenWriterTest, Append_WhatTheFormatCannotHold_IsRefused) {
  const auto refused = [&](TokenFormat format, int64_t vocabulary, int32_t token, uint8_t trained) {
    auto writer = TokenWriter::Open({folder_.Path("r.bin"), format, vocabulary}, {});
    if (!writer.ok()) return std::string(writer.status().message());
    return std::string((*writer)->Append({&token, 1}, {&trained, 1}).message());
  };
  EXPECT_EQ(refused(TokenFormat::kLlmq, 100, 99, 0), "");
  EXPECT_THAT(refused(TokenFormat::kLlmq, 100, 100, 1), HasSubstr("beyond the vocabulary of 100"));
  EXPECT_THAT(refused(TokenFormat::kLlmq, 100, -1, 1), HasSubstr("token -1"));
  EXPECT_THAT(refused(TokenFormat::kU16, 65537, 1, 1), HasSubstr("16 bits cannot hold"));
  for (const auto format : {TokenFormat::kU16, TokenFormat::kLlmc, TokenFormat::kMegatron}) {
    EXPECT_THAT(refused(format, 100, 1, 0), HasSubstr("use the format llmq"));
  }
  const auto unnamed = TokenWriter::Open({folder_.Path("r"), TokenFormat::kU16, 100}, {});
  EXPECT_THAT(std::string(unnamed.status().message()), HasSubstr("end in .bin"));
}

TEST_F(TokenWriterTest, Append_MoreTokensThanAHeaderCanCount_IsRefused) {
  const TokenFile file{folder_.Path("long.bin"), TokenFormat::kLlmc, 100};
  const int64_t most = 2147483647;
  // As after a long attempt: holes.
  folder_.Write("long.bin.partial", "");
  std::filesystem::resize_file(folder_.Path("long.bin.partial"), 1024 + 2 * most);
  folder_.Write("long.bin.partial.documents", std::string(40, '\0'));
  auto writer = TokenWriter::Open(file, {most - 1, 1});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const int32_t token = 1;
  const uint8_t trained = 1;
  EXPECT_TRUE((*writer)->Append({&token, 1}, {&trained, 1}).ok());
  const absl::Status status = (*writer)->Append({&token, 1}, {&trained, 1});
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 2147483647 tokens"));
}

TEST_F(TokenWriterTest, Open_WhileAnotherWrites_IsRefused) {
  const TokenFile file{folder_.Path("x"), TokenFormat::kLlmq, 100};
  const auto first = TokenWriter::Open(file, {});
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(std::string(TokenWriter::Open(file, {}).status().message()),
              HasSubstr("another process is writing it"));
}

TEST_F(TokenWriterTest, Open_PartsThatAreGone_IsDataLoss) {
  const TokenFile file{folder_.Path("x"), TokenFormat::kLlmq, 100};
  EXPECT_TRUE(absl::IsDataLoss(TokenWriter::Open(file, {10, 1}).status()));
}

TEST_F(TokenWriterTest, Open_FolderThatIsNotThere_NamesThePath) {
  const absl::Status status =
      TokenWriter::Open({folder_.Path("no/x"), TokenFormat::kLlmq, 100}, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.Path("no/x")));
}

TEST_F(TokenWriterTest, Finish_WithoutTokens_LeavesNothingUnderTheName) {
  auto writer = TokenWriter::Open({folder_.Path("x"), TokenFormat::kLlmq, 100}, {});
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*writer)->Finish()));
  EXPECT_FALSE(Exists(folder_.Path("x")));
}

}  // namespace
}  // namespace strata::data
