#include "client/prompt.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr char kTemplate[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// A tokenizer with ChatML's tokens, and a template where one is given; texts begin with <|im_end|>.
std::shared_ptr<const data::Tokenizer> LoadTokenizer(const std::string& chat_template) {
  namespace fs = std::filesystem;
  const char* base = std::getenv("TEST_TMPDIR");
  const fs::path folder =
      fs::path(base != nullptr ? base : "/tmp") / (chat_template.empty() ? "plain" : "chat");
  fs::create_directories(folder);
  std::ifstream original("data/tokenizer/testdata/qwen2/tokenizer.json");
  nlohmann::json json = nlohmann::json::parse(original);
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<|im_end|>"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<|im_end|>": {"ids": [702]}}})");
  std::ofstream(folder / "tokenizer.json") << json;
  if (!chat_template.empty()) std::ofstream(folder / "chat_template.jinja") << chat_template;
  auto tokenizer = data::Tokenizer::Load(folder.string());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

TEST(EncodePromptTest, PlainTextIsEncodedAsItIs) {
  const auto tokenizer = LoadTokenizer("");
  const auto prompt = EncodePrompt(*tokenizer, {"one two"});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(tokenizer->Decode(prompt->tokens, false), "one two");
  EXPECT_THAT(prompt->stop, Contains(*tokenizer->Find("<|endoftext|>")));
}

TEST(EncodePromptTest, BegunTextStandsBehindWhatTheTokenizerPutsBeforeTexts) {
  const auto tokenizer = LoadTokenizer(kTemplate);
  PromptText text{"one two"};
  text.begun = true;
  EXPECT_EQ(tokenizer->Decode(EncodePrompt(*tokenizer, text)->tokens, false), "<|im_end|>one two");
  text.chat = true;  // what the template writes is all
  EXPECT_EQ(EncodePrompt(*tokenizer, text)->tokens,
            EncodePrompt(*tokenizer, {"one two", /*chat=*/true})->tokens);
}

TEST(EncodePromptTest, EmptyTextBeginsADocument) {
  const auto tokenizer = LoadTokenizer("");
  const auto prompt = EncodePrompt(*tokenizer, {""});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->tokens, std::vector<int32_t>{*tokenizer->end_of_text()});
}

TEST(EncodePromptTest, ChatIsWrittenByTheTemplateAndEndsWithTheTurn) {
  const auto tokenizer = LoadTokenizer(kTemplate);
  const auto prompt = EncodePrompt(*tokenizer, {"hi", /*chat=*/true, "be brief"});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(tokenizer->Decode(prompt->tokens, false),
            "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_THAT(prompt->stop, Contains(*tokenizer->Find("<|im_end|>")));
  EXPECT_TRUE(std::is_sorted(prompt->stop.begin(), prompt->stop.end()));
}

TEST(EncodePromptTest, WhatCannotBeEncodedNamesTheFlag) {
  EXPECT_THAT(EncodePrompt(*LoadTokenizer(""), {"hi", /*chat=*/true}).status().message(),
              HasSubstr("--chat: a conversation needs a chat template"));
  EXPECT_THAT(EncodePrompt(*LoadTokenizer(""), {"\xff"}).status().message(),
              HasSubstr("--prompt: "));
}

}  // namespace
}  // namespace strata::client
