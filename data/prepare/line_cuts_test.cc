#include "data/prepare/line_cuts.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

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

TEST(LineCutsTest, CutsAtLines_ForProvenSplits_TokensAreThoseOfTheWhole) {
  const TemporaryFolder folder;
  for (const TestSplit split : {TestSplit::kGpt2, TestSplit::kLlama3, TestSplit::kQwen}) {
    const std::string path = WriteTestTokenizer(folder.Path("t"), split);
    ASSERT_TRUE(CutsAtLines(path).ok());
    EXPECT_TRUE(*CutsAtLines(path));
    const auto tokenizer = Tokenizer::Load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::mt19937 random(7);
    int cuts = 0;
    for (int round = 0; round < 3000; ++round) {
      const std::string text = Nasty(random);
      const size_t cut = LastLineCut(text);
      if (cut == 0) continue;
      ++cuts;
      std::vector<int32_t> whole, parts;
      ASSERT_TRUE((*tokenizer)->Encode(text, &whole).ok());
      ASSERT_TRUE((*tokenizer)->Encode(text.substr(0, cut), &parts).ok());
      ASSERT_TRUE((*tokenizer)->Encode(text.substr(cut), &parts).ok());
      ASSERT_EQ(whole, parts) << text << " cut at " << cut;
    }
    EXPECT_GT(cuts, 300);
  }
}

TEST(LineCutsTest, CutsAtLines_UnlessProven_IsFalse) {
  const TemporaryFolder folder;
  const std::string path = WriteTestTokenizer(folder.Path("t"), TestSplit::kLlama3);
  const auto with = [&](const auto& change) {
    nlohmann::json tokenizer = nlohmann::json::parse(std::ifstream(path + "/tokenizer.json"));
    change(tokenizer);
    return *CutsAtLines(folder.Write("changed.json", tokenizer.dump()));
  };
  EXPECT_TRUE(with([](auto&) {}));
  EXPECT_FALSE(with([](auto& t) { t["normalizer"] = {{"type", "Prepend"}, {"prepend", "▁"}}; }));
  EXPECT_FALSE(with([](auto& t) { t["pre_tokenizer"] = nullptr; }));
  EXPECT_FALSE(with([](auto& t) {
    t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\S+\n?\s*)";
  }));
  EXPECT_FALSE(with([](auto& t) { t["added_tokens"][1]["lstrip"] = true; }));
  EXPECT_FALSE(with([](auto& t) { t["added_tokens"][1]["content"] = "<\n>"; }));
}

}  // namespace
}  // namespace strata::data
