#include "data/records/token_spans.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

std::shared_ptr<const Tokenizer> LoadTokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::Load("data/tokenizer/testdata/" + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

// What the covered tokens say when the part of `text` between the bars is asked for.
std::string Covered(const std::shared_ptr<const Tokenizer>& tokenizer, std::string text) {
  const size_t begin = text.find('|');
  text.erase(begin, 1);
  const size_t end = text.find('|');
  text.erase(end, 1);
  std::vector<int32_t> tokens, kept;
  EXPECT_TRUE(tokenizer->Encode(text, &tokens).ok());
  std::vector<uint8_t> covered;
  const jinja::Span part{begin, end};
  const absl::Status status =
      TokenSpans(tokenizer).Mark(text, tokens, absl::MakeConstSpan(&part, 1), &covered);
  if (!status.ok()) return "ERROR " + std::string(status.message());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (covered[i] != 0) kept.push_back(tokens[i]);
  }
  return tokenizer->Decode(kept, false);
}

TEST(TokenSpansTest, BytesAreTheirOwnPlaces) {
  EXPECT_EQ(Covered(Tokenizer::Bytes(), "ab|cé|d"), "cé");
}

TEST(TokenSpansTest, EveryStyleOfTokenizerKeepsThePart) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "llama2", "gemma", "mistral"}) {
    const auto tokenizer = LoadTokenizer(name);
    EXPECT_THAT(Covered(tokenizer, "one two|\nthree é世👩‍👧 \t 12345\n|\nfour"),
                testing::HasSubstr("three é世👩‍👧 \t 12345\n"))
        << name;
    EXPECT_EQ(Covered(tokenizer, "||a b"), "") << name;
  }
}

TEST(TokenSpansTest, TextThatTheTokenizerComposesIsFollowed) {
  EXPECT_EQ(Covered(LoadTokenizer("qwen2"), "e\u0301 x\n|e\u0301 y|\n"), "é y");
}

TEST(TokenSpansTest, MarksOfSpacesInTheTextAreFollowed) {
  EXPECT_THAT(Covered(LoadTokenizer("llama2"), "a \u2581 b\n|c\u2581d|"), testing::HasSubstr("c"));
}

}  // namespace
}  // namespace strata::data
