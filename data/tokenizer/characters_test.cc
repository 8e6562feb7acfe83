#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/random.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/regex_syntax.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Lossy(const std::string& bytes) {
  std::string text;
  AppendLossy(bytes, &text);
  return text;
}

TEST(Utf8Test, Lossy_InvalidBytes_OneReplacementForEachPartOfACharacter) {
  EXPECT_EQ(Lossy("a\xFF\xC3\xA9"), "a\uFFFDé");
  EXPECT_EQ(Lossy("\xE2\x82"), "\uFFFD");                  // truncated
  EXPECT_EQ(Lossy("\xE2\x82z"), "\uFFFDz");                // broken off
  EXPECT_EQ(Lossy("\xC0\x80"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(Lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(Lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("\xF0\x9F\x92"), "\uFFFD");
}

TEST(Utf8Test, FindInvalid_AtEachPlace_TellsWhere) {
  for (size_t at = 0; at < 20; ++at) {
    std::string text(20, 'x');
    EXPECT_EQ(FindInvalidUtf8(text), std::string::npos);
    text[at] = '\x80';
    EXPECT_EQ(FindInvalidUtf8(text), at);
  }
  EXPECT_EQ(FindInvalidUtf8("東京é👍"), std::string::npos);
  EXPECT_EQ(FindInvalidUtf8("東京\xE6\x9D"), 6);
}

TEST(UnicodeTest, Category_OfNewCharacters_IsThatOfUnicode16) {
  EXPECT_EQ(CategoryOf('A'), kLu);
  EXPECT_EQ(CategoryOf(0x1C89), kLu);   // Unicode 16
  EXPECT_EQ(CategoryOf(0x2EBF0), kLo);  // Unicode 15.1
  EXPECT_EQ(CategoryOf(0x1171E), kMc);  // once Mn
  EXPECT_EQ(CategoryOf(0x10FFFF), kCn);
}

std::string Normalized(const std::string& text, NormalForm form) {
  std::string out;
  AppendNormalized(text, form, &out);
  return out;
}

TEST(UnicodeTest, Normalize_Examples_GivesTheForms) {
  EXPECT_EQ(Normalized("e\u0301", NormalForm::kNfc), "\u00E9");
  EXPECT_EQ(Normalized("\u00E9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(Normalized("a\u0315\u0300\u05AE\u0062", NormalForm::kNfc), "\u00E0\u05AE\u0315\u0062");
  EXPECT_EQ(Normalized("\u1100\u1161\u11A8", NormalForm::kNfc), "\uAC01");
  EXPECT_EQ(Normalized("\uFB01\u00B2", NormalForm::kNfkc), "fi2");
  EXPECT_EQ(Normalized("\uFDFA", NormalForm::kNfkd).size(), 33);
  // Characters newer than the library's normal forms stay, and keep others apart.
  EXPECT_EQ(Normalized("\U00011935\U00011930", NormalForm::kNfc), "\U00011935\U00011930");
  EXPECT_EQ(Normalized("e\u1AC1\u0301", NormalForm::kNfc), "e\u1AC1\u0301");
}

std::string ByUtf8proc(const std::string& text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  EXPECT_GE(size, 0);
  const std::string normalized(reinterpret_cast<char*>(result), static_cast<size_t>(size));
  std::free(result);
  return normalized;
}

// Characters of old scripts (but U+11A7, which utf8proc swallows): what changes in stretches must
// be what changes as a whole.
TEST(UnicodeTest, Normalize_RandomTexts_AsUtf8procDoesAtOnce) {
  const std::pair<NormalForm, int> forms[] = {
      {NormalForm::kNfc, UTF8PROC_COMPOSE},
      {NormalForm::kNfd, UTF8PROC_DECOMPOSE},
      {NormalForm::kNfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
      {NormalForm::kNfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  const std::pair<char32_t, char32_t> blocks[] = {
      {'a', 'z'},       {0xC0, 0x17F},    {0x300, 0x340},    {0x1100, 0x11A6},
      {0x11A8, 0x11C2}, {0xAC00, 0xAC40}, {0x915, 0x94D},    {0x9BE, 0x9D7},
      {0xFB00, 0xFB06}, {0x3041, 0x309A}, {0x1D15E, 0x1D164}};
  common::Random random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t left = random.Next() % 12; left > 0; --left) {
      const auto [first, last] = blocks[random.Next() % std::size(blocks)];
      AppendUtf8(first + static_cast<char32_t>(random.Next() % (last - first + 1)), &text);
    }
    for (const auto& [form, options] : forms) {
      const std::string expected = ByUtf8proc(text, options);
      ASSERT_EQ(Normalized(text, form), expected) << text;
      if (IsNormalized(text, form)) {
        EXPECT_EQ(text, expected);
      }
    }
  }
}

TEST(UnicodeTest, Normalize_ManyMarksInTheWrongOrder_TakesNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0315" : "\u0334";
  const std::string normalized = Normalized(text, NormalForm::kNfc);
  EXPECT_EQ(normalized.size(), text.size());
  EXPECT_EQ(normalized.substr(1, 4), "\u0334\u0334");
}

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> matches;
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  if (!regex.ok()) return {};
  const absl::Status status = (*regex)->FindAll(
      text, [&](size_t begin, size_t end) { matches.push_back(text.substr(begin, end - begin)); });
  EXPECT_TRUE(status.ok()) << status;
  return matches;
}

TEST(RegexTest, FindAll_WhatLibrariesUnderstandDifferently_IsAsInOniguruma) {
  EXPECT_THAT(Matches(R"(\s)", "\u180E\u00A0\u0085\u200B"), ElementsAre("\u00A0", "\u0085"));
  EXPECT_THAT(Matches(R"(\S+)", "a\u180E b"), ElementsAre("a\u180E", "b"));
  EXPECT_THAT(Matches(R"(\p{L}+)", "x\U00010D4A\u1C89 1"), ElementsAre("x\U00010D4A\u1C89"));
  EXPECT_THAT(Matches(R"([^\p{Lu}]+)", "a\u1C89b"), ElementsAre("a", "b"));
  EXPECT_THAT(Matches(R"(\p{Mn})", "\U0001171E\u0301"), ElementsAre("\u0301"));
  EXPECT_THAT(Matches(R"(\d+)", "1٣\U0001E5F1a"), ElementsAre("1٣\U0001E5F1"));
  EXPECT_THAT(Matches(R"(\w+)", "a_ⓐ\u0301\u200Db"), ElementsAre("a_ⓐ\u0301", "b"));
  EXPECT_THAT(Matches(R"(\w+)", "²³¼½"), ElementsAre("²³¼½"));
  EXPECT_THAT(Matches(R"([\w]+)", "²³¼½"), ElementsAre());
  EXPECT_THAT(Matches(R"((?i:'s))", "'ſ'S'x"), ElementsAre("'ſ", "'S"));
  EXPECT_THAT(Matches(R"((?i:k))", "\u212A"), ElementsAre("\u212A"));
  EXPECT_THAT(Matches(R"(.+)", "a\rb\nc"), ElementsAre("a\rb", "c"));
  EXPECT_THAT(Matches(R"([a[bc]]+)", "abcd"), ElementsAre("abc"));
  EXPECT_THAT(Matches(R"(x{,2}y)", "xxxyy"), ElementsAre("xxy", "y"));
  EXPECT_THAT(Matches(R"(\u4e00|\x{1F44D}|\x41)", "A一👍"), ElementsAre("A", "一", "👍"));
}

TEST(RegexTest, FindAll_EmptyMatches_AreFoundOnceAtEachPlace) {
  EXPECT_THAT(Matches("x*", "axé"), ElementsAre("", "x", ""));
  EXPECT_THAT(Matches("(?=é)", "aé"), ElementsAre(""));
}

TEST(RegexTest, Compile_WhatCouldMeanSomethingElse_IsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {{"^a", "anchor ^"},
                                                       {"a$", "anchor $"},
                                                       {"[a&&b]", "intersection"},
                                                       {"[[:alpha:]]", "[:class:]"},
                                                       {"[[^a]b]", "negated set"},
                                                       {"[\\P{L}a]", "negated class"},
                                                       {"\\bx", "\\b"},
                                                       {"\\h", "\\h"},
                                                       {"\\X", "\\X"},
                                                       {"(?<n>x)", "(?<n"},
                                                       {"(?m:x)", "(?m:"},
                                                       {"a{2}?", "{n}?"},
                                                       {"a{1,2}+", "followed by +"},
                                                       {"a**", "quantifier of a quantifier"},
                                                       {"a{x}", "no interval"},
                                                       {"(?i:ss)", "\"ss\""},
                                                       {"(?i:é)", "beyond ASCII"},
                                                       {"\\p{Han}", "\\p{Han}"},
                                                       {"\\p{Cn}", "\\p{Cn}"},
                                                       {"\\pL", "without {name}"},
                                                       {"\\xFF", "beyond 7F"},
                                                       {"[]a]", "begins with ]"},
                                                       {"a}", "bare }"}};
  for (const auto& [pattern, what] : cases) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr(what)) << pattern;
  }
}

TEST(RegexTest, Compile_Malformed_IsInvalid) {
  for (const char* pattern : {"(a", "a)", "[a", "*a", "[b-a]", "\\", "\\p{L", "\\x{110000}",
                              "\\u12", "\xFF", "(?<=a+)b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Regex::Compile(pattern).status())) << pattern;
  }
  EXPECT_FALSE(Regex::Compile(std::string(1000, '(') + std::string(1000, ')')).ok());
}

TEST(RegexTest, FindAll_ExponentialPattern_IsStoppedByItsLimits) {
  const auto regex = Regex::Compile("(?:x+x+)+[yz]");
  ASSERT_TRUE(regex.ok());
  const absl::Status status = (*regex)->FindAll(std::string(64, 'x'), [](size_t, size_t) {});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace
}  // namespace strata::data
