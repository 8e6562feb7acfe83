#include "data/tokenizer/splitter.h"

#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using Cuts = std::vector<std::pair<size_t, size_t>>;

constexpr KnownPattern kPatterns[] = {KnownPattern::kGpt2, KnownPattern::kLlama3,
                                      KnownPattern::kQwen2};

// Characters of every class, and those that the expressions name.
const char* const kPieces[] = {
    "a",      "S",      "s",      "t", "l",      "e", "R",          "V",         "'",  "\u017F",
    "é",      "東",     "ⅻ",      "1", "٣",      " ", "\n",         "\r",        "\t", "\u00A0",
    "\u3000", "\u180E", "\u0301", "!", "\u200D", "👍", "\U00010D4A", "\U0001E5F1"};

Cuts ByRegex(const Regex& regex, const std::string& text) {
  Cuts cuts;
  const absl::Status status =
      regex.FindAll(text, [&](size_t begin, size_t end) { cuts.emplace_back(begin, end); });
  EXPECT_TRUE(status.ok()) << status;
  return cuts;
}

Cuts ByHand(KnownPattern pattern, const std::string& text) {
  Cuts cuts;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const next = EndOfMatch(pattern, at, end);
    cuts.emplace_back(at - text.data(), next - text.data());
    at = next;
  }
  return cuts;
}

class SplitterTest : public ::testing::TestWithParam<KnownPattern> {
 protected:
  void SetUp() override {
    auto regex = Regex::Compile(RegexOf(GetParam()));
    ASSERT_TRUE(regex.ok()) << regex.status();
    regex_ = *std::move(regex);
  }
  void Compare(const std::string& text) const {
    ASSERT_EQ(ByHand(GetParam(), text), ByRegex(*regex_, text)) << text;
  }
  std::shared_ptr<const Regex> regex_;
};

TEST_P(SplitterTest, Known_ItsOwnRegex_IsFound) {
  EXPECT_EQ(KnownPatternOf(RegexOf(GetParam())), GetParam());
  EXPECT_EQ(KnownPatternOf(std::string(RegexOf(GetParam())) + "|x"), std::nullopt);
}

TEST_P(SplitterTest, Cut_AllTextsOfFourPieces_AsTheRegexDoes) {
  for (const std::string a : kPieces) {
    for (const std::string b : kPieces) {
      for (const std::string c : kPieces) {
        Compare(a + b + c);
        Compare("x " + a + b + c + "'");
      }
    }
  }
}

TEST_P(SplitterTest, Cut_RandomTexts_AsTheRegexDoes) {
  common::Random rng(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const uint64_t pieces = 1 + rng.Next() % 40;
    for (uint64_t p = 0; p < pieces; ++p) text += kPieces[rng.Next() % std::size(kPieces)];
    Compare(text);
  }
}

TEST_P(SplitterTest, Cut_EveryCharacter_AsTheRegexDoes) {
  std::string text;
  for (char32_t code = 1; code <= kLastCharacter; ++code) {
    if (code == 0xD800) code = 0xE000;
    text += "a";
    AppendUtf8(code, &text);
    text += " ";
    AppendUtf8(code, &text);
    if (code % 4096 == 0) {
      Compare(text);
      text.clear();
    }
  }
  Compare(text);
}

INSTANTIATE_TEST_SUITE_P(Patterns, SplitterTest, ::testing::ValuesIn(kPatterns));

}  // namespace
}  // namespace strata::data
