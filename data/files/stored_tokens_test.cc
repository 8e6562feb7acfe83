#include "data/files/stored_tokens.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/files/document_ends.h"
#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 21;

std::string Golden(const std::string& name) { return "data/files/goldens/" + name; }

std::string BytesOfFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::vector<int32_t> TokensBelow(int32_t vocabulary, int32_t factor = 7919) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(i * factor % vocabulary);
  return tokens;
}

std::shared_ptr<const TokenSource> OpenGood(const std::string& path, int64_t vocabulary = 0) {
  const auto source = OpenTokenSource(path, vocabulary);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *source : nullptr;
}

std::string WhyNot(const std::string& path) {
  return std::string(OpenTokenSource(path).status().message());
}

std::string WithWord(std::string bytes, size_t index, int32_t value) {
  std::memcpy(bytes.data() + 4 * index, &value, sizeof(value));
  return bytes;
}

TEST(TokenFilesTest, Read_EveryKind_GivesTheTokensOfTheIndependentWriter) {
  struct {
    const char* name;
    std::vector<int32_t> tokens;
    int64_t vocabulary;
  } const cases[] = {
      {"llmq_v2.bin", TokensBelow(128256), 128256},
      {"llmq_v2_unmasked.bin", TokensBelow(128256), 128256},
      {"llmq_v1.bin", TokensBelow(128256), 126705},
      {"llmc_gpt2.bin", TokensBelow(50257), 49948},
      {"llmc_llama3.bin", TokensBelow(128256), 126705},
      {"raw.bin", TokensBelow(50257), 49948},
      {"megatron.idx", TokensBelow(50257), 49948},
      {"megatron_wide.idx", TokensBelow(128256), 126705},
      {"megatron_long.idx", TokensBelow(128256), 126705},
      {"megatron_bytes.idx", TokensBelow(256, 37), 229},
  };
  for (const auto& c : cases) {
    const auto source = OpenGood(Golden(c.name));
    ASSERT_NE(source, nullptr);
    ASSERT_EQ(source->tokens(), kTokens) << c.name;
    EXPECT_STREQ(source->unit(), "tokens");
    EXPECT_EQ(source->vocabulary(), c.vocabulary) << c.name;
    EXPECT_EQ(source->path(), Golden(c.name));
    for (int64_t begin = 0; begin <= kTokens; ++begin) {
      for (int64_t end = begin; end <= kTokens; ++end) {
        std::vector<int32_t> read(static_cast<size_t>(end - begin));
        ASSERT_TRUE(source->Read(begin, end - begin, read.data()).ok());
        EXPECT_EQ(read, std::vector<int32_t>(c.tokens.begin() + begin, c.tokens.begin() + end));
      }
    }
  }
}

TEST(TokenFilesTest, MaskTargets_OfAnyRange_LowestBitIsTheFirstToken) {
  const auto source = OpenGood(Golden("llmq_v2.bin"));
  EXPECT_TRUE(source->masked());
  for (int64_t begin = 0; begin < kTokens; ++begin) {
    for (int64_t count = 0; count <= kTokens - begin; ++count) {
      std::vector<int32_t> targets(static_cast<size_t>(count), 7);
      ASSERT_TRUE(source->MaskTargets(begin, count, targets.data()).ok());
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(targets[i], (begin + i) % 3 == 0 ? -1 : 7) << begin << " + " << i;
      }
    }
  }
}

TEST(TokenFilesTest, MaskTargets_WithoutAMask_KeepsAll) {
  for (const char* name : {"llmq_v1.bin", "llmq_v2_unmasked.bin", "raw.bin", "megatron.idx"}) {
    int32_t targets[] = {1, 2, 3};
    const auto source = OpenGood(Golden(name));
    EXPECT_FALSE(source->masked());
    ASSERT_TRUE(source->MaskTargets(2, 3, targets).ok());
    EXPECT_THAT(targets, ElementsAre(1, 2, 3));
  }
}

TEST(TokenFilesTest, MaskTargets_LongerThanOnePiece_IsSeamless) {
  const TemporaryFolder folder;
  constexpr int32_t kMany = 300000;
  std::string file(1024, '\0');
  std::memcpy(file.data(), "BIN.TOK\n", 8);
  for (const auto& [word, value] :
       {std::pair<size_t, int32_t>{2, 2}, {3, 4}, {4, kMany}, {5, 10}, {6, 1}}) {
    file = WithWord(std::move(file), word, value);
  }
  file.resize(1024 + 4 * kMany + (kMany + 7) / 8);
  for (int32_t i = 0; i < kMany; ++i) {
    if (i % 5 == 0) file[1024 + 4 * kMany + i / 8] |= static_cast<char>(1 << (i % 8));
  }
  const auto source = OpenGood(folder.Write("many", file));
  std::vector<int32_t> targets(kMany - 3, 1);
  ASSERT_TRUE(source->MaskTargets(3, kMany - 3, targets.data()).ok());
  for (int32_t i = 3; i < kMany; ++i) ASSERT_EQ(targets[i - 3], i % 5 == 0 ? 1 : -1) << i;
}

TEST(TokenFilesTest, DocumentEnds_OfEachKind_AreFoundOrMissed) {
  EXPECT_THAT(*OpenGood(Golden("llmq_v2.bin"))->DocumentEnds(), ElementsAre(5, 12, 21));
  EXPECT_THAT(*OpenGood(Golden("megatron.idx"))->DocumentEnds(), ElementsAre(5, 12, 21));
  EXPECT_THAT(*OpenGood(Golden("megatron_long.idx"))->DocumentEnds(), ElementsAre(12, 21));
  const TemporaryFolder folder;
  EXPECT_THAT(*OpenGood(folder.Write("t.txt", "twelve bytes"))->DocumentEnds(), ElementsAre(12));
  const auto status = OpenGood(Golden("raw.bin"))->DocumentEnds().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("raw.bin.documents"));
}

TEST(TokenFilesTest, DocumentEnds_DamagedList_IsRefusedByName) {
  const TemporaryFolder folder;
  const std::string good = BytesOfFile(Golden("llmq_v2.bin.documents"));
  const auto source = OpenGood(folder.Write("f", BytesOfFile(Golden("llmq_v2.bin"))));
  const std::pair<std::string, const char*> cases[] = {
      {good.substr(0, 31), "cut short"},
      {good.substr(0, 40), "documents"},
      {good + "x", "documents"},
      {"X" + good.substr(1), "first bytes"},
      {WithWord(good, 2, 9), "version 9"},
      {WithWord(good, 6, 22), "of a file of 22 tokens, not of 21"},
      {WithWord(good, 8, 0), "ends at 0 after 0"},
      {WithWord(good, 10, 5), "ends at 5 after 5"},
      {WithWord(good, 12, 20), "the last document ends at 20"},
      {WithWord(good, 9, -1), "ends at -"},
  };
  for (const auto& [bytes, why] : cases) {
    folder.Write("f.documents", bytes);
    const absl::Status status = source->DocumentEnds().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << why;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("f.documents: "), HasSubstr(why)));
  }
}

TEST(TokenFilesTest, Open_DamagedLlmq_SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string good = BytesOfFile(Golden("llmq_v2.bin"));
  const std::pair<std::string, const char*> cases[] = {
      {good.substr(0, 40), "header is cut short: 40 bytes"},
      {good.substr(0, good.size() - 1),
       "is a file of 1111 bytes, but it has 1110: it is cut short"},
      {good + "x", "something follows"},
      {WithWord(good, 2, 3), "version 3"},
      {WithWord(good, 3, 2), "2 bytes per token"},
      {WithWord(good, 4, 2147483647), "2147483647 tokens, which is a file of 8858371068 bytes"},
      {WithWord(good, 4, -5), "-5 tokens"},
      {WithWord(good, 4, 0), "holds no tokens"},
      {WithWord(good, 5, 0), "vocabulary of 0"},
      {WithWord(good, 6, 2), "word 6"},
      {WithWord(good, 6, 0), "something follows"},
      {WithWord(good, 256 + 4, -3), "token -3 at position 4 is no token"},
  };
  for (const auto& [bytes, why] : cases) {
    const std::string path = folder.Write("bad.bin", bytes);
    EXPECT_THAT(WhyNot(path), AllOf(HasSubstr(path + ": "), HasSubstr(why)));
  }
}

TEST(TokenFilesTest, Open_DamagedLlmc_SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string good = BytesOfFile(Golden("llmc_gpt2.bin"));
  EXPECT_THAT(WhyNot(folder.Write("a", good.substr(0, 5))), HasSubstr("header is cut short"));
  EXPECT_THAT(WhyNot(folder.Write("a", good + "12")), HasSubstr("something follows"));
  EXPECT_THAT(WhyNot(folder.Write("a", WithWord(good, 1, 2))), HasSubstr("version 2"));
  EXPECT_THAT(WhyNot(folder.Write("a", WithWord(good, 2, 22))), HasSubstr("cut short"));
  EXPECT_THAT(WhyNot(Golden("llmc_choices.bin")), HasSubstr("evaluation file"));
}

TEST(TokenFilesTest, Open_NamesThatTellNoKind_AreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(WhyNot(folder.Write("odd.bin", "123")), HasSubstr("no whole number"));
  EXPECT_THAT(WhyNot(folder.Write("x.idx", "123")), HasSubstr("no Megatron index"));
  EXPECT_THAT(WhyNot(folder.Write("x.jsonl", "{}")), HasSubstr("strata data prepare"));
  EXPECT_THAT(WhyNot(folder.Write("x.jsonl.gz", "{}")), HasSubstr("strata data prepare"));
  EXPECT_THAT(WhyNot(Golden("megatron.bin")), HasSubstr("name data/files/goldens/megatron.idx"));
}

TEST(TokenFilesTest, Read_TokenBeyondTheModel_NamesPathAndPosition) {
  const auto source = OpenGood(Golden("raw.bin"), 47000);  // token 6 is 47514
  int32_t tokens[kTokens];
  EXPECT_TRUE(source->Read(0, 6, tokens).ok());
  const absl::Status status = source->Read(2, 10, tokens);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("raw.bin: token 47514 at position 6"),
                    HasSubstr("beyond the model's vocabulary of 47000")));
}

TEST(TokenFilesTest, Read_FileThatHasBecomeShorter_IsDataLoss) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("t.bin", BytesOfFile(Golden("llmq_v2.bin")));
  const auto source = OpenGood(path);
  std::filesystem::resize_file(path, 1040);
  int32_t tokens[kTokens];
  EXPECT_TRUE(absl::IsDataLoss(source->Read(0, kTokens, tokens)));
  EXPECT_TRUE(absl::IsDataLoss(source->MaskTargets(0, kTokens, tokens)));
}

}  // namespace
}  // namespace strata::data
