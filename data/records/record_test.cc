#include "data/records/record.h"

#include <string>
#include <variant>

#include "data/records/jinja/value.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using testing::HasSubstr;

std::string Error(const std::string& json) {
  const absl::StatusOr<Record> record = ReadRecord(json, false);
  return record.ok() ? "no error" : std::string(record.status().message());
}

// "role:content|role:content"
std::string Messages(const std::string& json) {
  const absl::StatusOr<Record> record = ReadRecord(json, false);
  if (!record.ok()) return "ERROR " + std::string(record.status().message());
  std::string out;
  for (const jinja::Value& message : std::get<ChatRecord>(*record).conversation.messages) {
    const jinja::Value* content = message.AsDict()->Find("content");
    out += out.empty() ? "" : "|";
    out += *message.AsDict()->Find("role")->AsText() + ":";
    out += content == nullptr ? "-" : *content->AsText();
  }
  return out;
}

TEST(RecordTest, EachKindOfConversationBecomesMessages) {
  EXPECT_EQ(Messages(R"({"messages":[{"role":"user","content":"a"},)"
                     R"({"role":"assistant","content":"b"}],"id":7})"),
            "user:a|assistant:b");
  EXPECT_EQ(Messages(R"({"conversations":[{"from":"human","value":"a"},)"
                     R"({"from":"gpt","value":"b"}],"system":"s"})"),
            "system:s|user:a|assistant:b");
  EXPECT_EQ(
      Messages(
          R"({"instruction":"i","input":"x","output":"o","system":"s","history":[["u","a"]]})"),
      "system:s|user:u|assistant:a|user:i\nx|assistant:o");
  EXPECT_EQ(Messages(R"({"instruction":"i","input":"","output":"o","history":null})"),
            "user:i|assistant:o");
  EXPECT_EQ(Messages(R"({"prompt":[{"role":"user","content":"a"}],)"
                     R"("completion":[{"role":"assistant","content":"b"}]})"),
            "user:a|assistant:b");
}

TEST(RecordTest, PartsBecomeOneTextAndNullContentGoesWithCalls) {
  EXPECT_EQ(
      Messages(R"({"messages":[{"role":"user",)"
               R"("content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
               R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]}]})"),
      "user:ab|assistant:-");
}

TEST(RecordTest, AlpacasOwnRenderingBesideItsPartsIsLeftOut_BesideOtherPartsItIsRefused) {
  EXPECT_EQ(Messages(R"({"text":"### i ### o","instruction":"i","output":"o"})"),
            Messages(R"({"instruction":"i","output":"o"})"));
  EXPECT_THAT(Error(R"({"text":"a","prompt":"a","completion":"b"})"), HasSubstr("two kinds"));
}

TEST(RecordTest, CompletionsTellWhereTheyBegin) {
  const absl::StatusOr<Record> record = ReadRecord(R"({"prompt":"ab","completion":"c"})", false);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(std::get<PlainRecord>(*record).text, "abc");
  EXPECT_EQ(std::get<PlainRecord>(*record).trained_from, 2u);
}

TEST(RecordTest, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(Error("["), HasSubstr("not valid JSON"));
  EXPECT_EQ(Error("[]"), "a record must be an object, not a list");
  EXPECT_THAT(Error(R"({"a":1})"), HasSubstr("none of the known kinds"));
  EXPECT_THAT(Error(R"({"text":"a","messages":[]})"), HasSubstr("two kinds of records at once"));
  EXPECT_THAT(Error(R"({"text":"a","text":"b"})"), HasSubstr("\"text\" stands twice"));
  EXPECT_EQ(Error(R"({"text":1})"), "text: must be a text, not int");
  EXPECT_EQ(Error(R"({"text":""})"), "text: is empty: nothing to train on");
  EXPECT_THAT(Error("{\"text\":\"\xff\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(Error(R"({"text":"\ud800"})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(Error(R"({"text":"a"} x)"), HasSubstr("not valid JSON"));
  EXPECT_EQ(Error(R"({"messages":[]})"), "messages: has no messages");
  EXPECT_EQ(Error(R"({"messages":[{"role":"user","content":"a"}]})"),
            "messages: no turn of the assistant: nothing to train on");
  EXPECT_THAT(Error(R"({"messages":[{"role":"usr","content":"a"}]})"),
              HasSubstr("messages[0].role: unknown role \"usr\" (known: "));
  EXPECT_EQ(Error(R"({"messages":[{"role":"user"}]})"), "messages[0].content: is missing");
  EXPECT_THAT(Error(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})"),
              HasSubstr("messages[0].content[0].type: only parts"));
  EXPECT_THAT(Error(R"({"conversations":[{"from":"x","value":"a"}]})"),
              HasSubstr("conversations[0].from: unknown speaker \"x\""));
  EXPECT_EQ(Error(R"({"instruction":"i","output":"o","history":[["a"]]})"),
            "history[0]: must be a list of two texts: user, assistant");
  EXPECT_THAT(Error(R"({"prompt":"a","completion":[]})"), HasSubstr("two texts or two lists"));
  EXPECT_EQ(Error(R"({"prompt":"a","completion":""})"),
            "completion: is empty: nothing to train on");
  EXPECT_THAT(Error(R"({"messages":[{"role":"assistant","content":"a"}],"tools":"[1]"})"),
              HasSubstr("tools[0]: must be an object"));
  EXPECT_THAT(Error(R"({"text":"a","n":18446744073709551615})"), HasSubstr("64 bits"));
  EXPECT_THAT(Error("{\"text\":" + std::string(200000, '[')), HasSubstr("levels deep"));
}

}  // namespace
}  // namespace strata::data
