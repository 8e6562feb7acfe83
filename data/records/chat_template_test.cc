#include "data/records/chat_template.h"

#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/records/record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace strata::data {
namespace {

using testing::HasSubstr;

constexpr char kChatMl[] =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

std::unique_ptr<const ChatTemplate> Load(const std::string& source) {
  std::tm date{};
  date.tm_year = 124, date.tm_mon = 6, date.tm_mday = 26;
  auto chat = ChatTemplate::Create(source, {{"eos_token", "</s>"}}, date);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return *std::move(chat);
}

ChatRecord Read(const ChatTemplate& chat, const std::string& json) {
  absl::StatusOr<Record> record = ReadRecord(json, chat.takes_parts());
  EXPECT_TRUE(record.ok()) << record.status();
  return std::get<ChatRecord>(*std::move(record));
}

// The text, trained parts in brackets.
std::string Marked(const ChatTemplate& chat, const std::string& json) {
  const ChatRecord record = Read(chat, json);
  const auto turns = chat.RenderTurns(record.conversation, record.first_trained);
  if (!turns.ok()) return "ERROR " + std::string(turns.status().message());
  std::string out;
  size_t at = 0;
  for (const jinja::Span& span : turns->trained) {
    out += turns->text.substr(at, span.begin - at) + "[" +
           turns->text.substr(span.begin, span.end - span.begin) + "]";
    at = span.end;
  }
  return out + turns->text.substr(at);
}

constexpr char kTwoTurns[] =
    R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
    R"({"role":"user","content":"c"},{"role":"assistant","content":"d "}]})";

TEST(ChatTemplateTest, TurnsHaveTheirEndButNeitherPromptNorNewline) {
  EXPECT_EQ(
      Marked(*Load(kChatMl), kTwoTurns),
      "<|user|>a<|end|>\n<|assistant|>[b<|end|>]\n<|user|>c<|end|>\n<|assistant|>[d <|end|>]\n");
}

TEST(ChatTemplateTest, EndOfATurnIsKnown) {
  EXPECT_EQ(Load(kChatMl)->turn_end(), "<|end|>");
  EXPECT_EQ(Load("{% for m in messages %}{{ m.content }}\n{% endfor %}")->turn_end(), "");
}

TEST(ChatTemplateTest, PromptThatIsAlwaysWrittenIsNoPartOfTurns) {
  EXPECT_EQ(Marked(*Load("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor "
                         "%}<|assistant|>"),
                   kTwoTurns),
            "<|user|>a<|end|><|assistant|>[b<|end|>]<|user|>c<|end|><|assistant|>[d "
            "<|end|>]<|assistant|>");
}

TEST(ChatTemplateTest, EndOfTextInsteadOfAPromptIsNoPartOfTurns) {
  EXPECT_EQ(
      Marked(*Load("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
                   "{{ '<|assistant|>' if add_generation_prompt else eos_token }}"),
             kTwoTurns),
      "<|user|>a<|end|>\n<|assistant|>[b<|end|>]\n<|user|>c<|end|>\n<|assistant|>[d "
      "<|end|>]\n</s>");
}

TEST(ChatTemplateTest, PromptThatGoesFurtherThanTurnsEndsWhereTheyDiffer) {
  EXPECT_EQ(
      Marked(*Load("{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] "
                   "}}<|end|>{% endfor %}"
                   "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"),
             R"({"messages":[{"role":"user","content":"a"},)"
             R"({"role":"assistant","content":"x</think><thing>"}]})"),
      "<|user|>a<|end|><|assistant|>[<thing><|end|>]");
}

TEST(ChatTemplateTest, MarkedTurnsAreThoseOfTheTemplate) {
  const auto chat = Load(
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}{% "
      "endgeneration %};"
      "{% else %}U:{{ m.content }};{% endif %}{% endfor %}");
  EXPECT_EQ(Marked(*chat, kTwoTurns), "U:a;A:[b];U:c;A:[d ];");
  EXPECT_EQ(Marked(*chat, R"({"prompt":[{"role":"assistant","content":"x"}],)"
                          R"("completion":[{"role":"assistant","content":"y"}]})"),
            "A:x;A:[y];");
}

TEST(ChatTemplateTest, CompletionAloneIsTrained) {
  EXPECT_EQ(
      Marked(*Load(kChatMl),
             R"({"prompt":[{"role":"assistant","content":"x"},{"role":"user","content":"a"}],)"
             R"("completion":[{"role":"assistant","content":"y"}]})"),
      "<|assistant|>x<|end|>\n<|user|>a<|end|>\n<|assistant|>[y<|end|>]\n");
}

TEST(ChatTemplateTest, TurnsThatCannotBeToldAreRefused) {
  EXPECT_THAT(Marked(*Load("{{ messages[0].content }}{{ messages[1].content }}"), kTwoTurns),
              HasSubstr("messages[0]: which tokens are the assistant's cannot be told"));
  EXPECT_THAT(Marked(*Load("{% for m in messages %}{{ m.content }}{% endfor %}"
                           "{% for m in messages %}{{ m.content }}{% endfor %}"),
                     kTwoTurns),
              HasSubstr("several places"));
  EXPECT_THAT(Marked(*Load("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                           "{% if add_generation_prompt %}assistant:{% endif %}"),
                     kTwoTurns),
              HasSubstr("begins its turn in another way than it prompts"));
}

TEST(ChatTemplateTest, WhatTheTemplateRefusesIsTold) {
  EXPECT_EQ(
      Marked(*Load("{% for m in messages %}{{ raise_exception('no ' + m.role) }}{% endfor %}"),
             kTwoTurns),
      "ERROR template line 1: the template refuses this: no user");
  std::tm date{};
  EXPECT_THAT(ChatTemplate::Create("{% if %}", {}, date).status().message(),
              HasSubstr("template line 1"));
}

// Conversations and templates as tests/parity/chat_parity.py found them equal to transformers.
TEST(ChatTemplateTest, TextsAndMasksAreThoseOfTransformers) {
  std::ifstream file("data/records/testdata/conversations.jsonl");
  int cases = 0;
  std::tm date{};
  date.tm_year = 124, date.tm_mon = 6, date.tm_mday = 26;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json golden = nlohmann::json::parse(line);
    std::vector<std::pair<std::string, std::string>> tokens;
    for (const auto& [name, text] : golden["tokens"].items()) tokens.emplace_back(name, text);
    const auto chat = ChatTemplate::Create(golden["template"].get<std::string>(), tokens, date);
    ASSERT_TRUE(chat.ok()) << chat.status();
    for (const nlohmann::json& wanted : golden["cases"]) {
      const ChatRecord record = Read(**chat, wanted["record"]);
      const auto turns = (*chat)->RenderTurns(record.conversation, record.first_trained);
      ASSERT_TRUE(turns.ok()) << turns.status() << wanted["record"];
      EXPECT_EQ(turns->text, wanted["text"].get<std::string>());
      nlohmann::json spans = nlohmann::json::array();
      for (const jinja::Span& span : turns->trained) spans.push_back({span.begin, span.end});
      EXPECT_EQ(spans, wanted["trained"]) << turns->text;
      ++cases;
    }
  }
  EXPECT_GE(cases, 50);
}

}  // namespace
}  // namespace strata::data
