#include "data/prepare/line_cuts.h"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "data/prepare/document_reader.h"
#include "data/prepare/piece_encoder.h"
#include "data/prepare/test_tokenizers.h"
#include "data/testing.h"
#include "data/tokenizer/tokenizer.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

TEST(LineCutsTest, LastLineCut_Places_AreBetweenVisibleCharacters) {
  EXPECT_EQ(LastLineCut("ab\ncd"), 3u);
  EXPECT_EQ(LastLineCut("ab\ncd\nef"), 6u);
  EXPECT_EQ(LastLineCut("ab\n"), 0u);
  EXPECT_EQ(LastLineCut("\nab"), 0u);
  EXPECT_EQ(LastLineCut("a\nb\n\nc"), 2u);
  EXPECT_EQ(LastLineCut("a\n c"), 0u);
  EXPECT_EQ(LastLineCut("a \nc"), 0u);
  EXPECT_EQ(LastLineCut("a\r\nc"), 0u);
  EXPECT_EQ(LastLineCut("a\n\xc2\xa0"), 0u);      // no-break space
  EXPECT_EQ(LastLineCut("\xe3\x80\x80\nc"), 0u);  // ideographic space
  EXPECT_EQ(LastLineCut("\xe6\x88\x91\n\xe6\x88\x91"), 4u);
  EXPECT_EQ(LastLineCut("\xe6\x88\x91\n\xe6\x88"), 0u);
  EXPECT_EQ(LastLineCut("\xff\nc"), 0u);
  EXPECT_EQ(LastLineCut(""), 0u);
  EXPECT_EQ(LastLineCut("\n"), 0u);
}

// What the whole text's tokens depend on, in random order.
std::string Nasty(std::mt19937& random) {
  const char* const parts[] = {"\n",
                               "\n",
                               "\n\n",
                               " ",
                               "  ",
                               "\t",
                               "\r\n",
                               "the",
                               " the",
                               "a",
                               "Z",
                               "7",
                               "123",
                               ".",
                               "!?",
                               "'s",
                               "'",
                               "\xc3\xa9",
                               "e\xcc\x81",
                               "\xcc\x81",
                               "\xe6\x88\x91",
                               "\xc2\xa0",
                               "\xe2\x80\xa8",
                               "<|endoftext|>",
                               "<|im_end|>"};
  std::string text;
  const size_t count = 1 + random() % 40;
  for (size_t i = 0; i < count; ++i) text += parts[random() % std::size(parts)];
  return text;
}

// Encodes random texts whole and in two parts, as the pieces of a long text are.
void CompareParts(const std::string& path, LineCuts expected) {
  const auto tokenizer = Tokenizer::Load(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto cuts = LineCutsOf(path, **tokenizer);
  ASSERT_TRUE(cuts.ok()) << cuts.status();
  ASSERT_EQ(*cuts, expected) << path;
  const auto encoder = PieceEncoder::Create(*tokenizer, *cuts, false, 0);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  std::mt19937 random(7);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = Nasty(random);
    const size_t cut = LastLineCut(text);
    if (cut == 0) continue;
    ++compared;
    std::vector<int32_t> whole;
    ASSERT_TRUE((*tokenizer)->Encode(text, &whole).ok());
    std::vector<int32_t> parts =
        (*encoder)->Encode({text.substr(0, cut), 0, true, false}).document.tokens;
    const EncodedPiece rest = (*encoder)->Encode({text.substr(cut), 0, false, false});
    parts.insert(parts.end(), rest.document.tokens.begin(), rest.document.tokens.end());
    ASSERT_EQ(whole, parts) << text << " cut at " << cut;
  }
  EXPECT_GT(compared, 300);
}

TEST(LineCutsTest, Parts_WhereCutsAreProven_HaveTheTokensOfTheWhole) {
  const TemporaryFolder folder;
  for (const TestSplit split : {TestSplit::kGpt2, TestSplit::kLlama3, TestSplit::kQwen}) {
    CompareParts(WriteTestTokenizer(folder.Path("bytes"), split), LineCuts::kPlain);
  }
  for (const bool puts_space_first : {false, true}) {
    CompareParts(WriteCharacterTokenizer(folder.Path("characters"), puts_space_first),
                 LineCuts::kBehindNewline);
  }
}

LineCuts CutsWith(const std::string& path, const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json tokenizer = nlohmann::json::parse(std::ifstream(path + "/tokenizer.json"));
  change(tokenizer);
  const TemporaryFolder folder;
  const std::string changed = folder.Write("tokenizer.json", tokenizer.dump());
  const auto loaded = Tokenizer::Load(changed);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *LineCutsOf(changed, **loaded) : LineCuts::kNone;
}

TEST(LineCutsTest, Cuts_UnlessProven_AreNone) {
  const TemporaryFolder folder;
  const std::string bytes = WriteTestTokenizer(folder.Path("bytes"), TestSplit::kLlama3);
  using Json = nlohmann::json;
  EXPECT_EQ(CutsWith(bytes, [](Json&) {}), LineCuts::kPlain);
  const std::function<void(Json&)> changes[] = {
      [](Json& t) {
        t["normalizer"] = {{"type", "Lowercase"}};
      },
      [](Json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\S+\n?\s*)"; },
      [](Json& t) { t["added_tokens"][1]["lstrip"] = true; },
      [](Json& t) { t["added_tokens"][1]["content"] = "<\n>"; },
  };
  for (const auto& change : changes) EXPECT_EQ(CutsWith(bytes, change), LineCuts::kNone);

  const std::string characters = WriteCharacterTokenizer(folder.Path("characters"), true);
  EXPECT_EQ(CutsWith(characters, [](Json&) {}), LineCuts::kBehindNewline);
  const std::function<void(Json&)> others[] = {
      [](Json& t) { t["model"]["vocab"]["\na"] = 300; },
      [](Json& t) { t["model"]["vocab"]["<0x0A>a"] = 300; },
      [](Json& t) { t["normalizer"]["normalizers"][1]["pattern"]["String"] = "\n"; },
  };
  for (const auto& change : others) EXPECT_EQ(CutsWith(characters, change), LineCuts::kNone);
}

}  // namespace
}  // namespace strata::data
