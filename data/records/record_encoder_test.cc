#include "data/records/record_encoder.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using testing::HasSubstr;

std::unique_ptr<const RecordEncoder> MakeEncoder(const std::string& chat_template) {
  RecordOptions options;
  options.chat_template = chat_template;
  auto encoder = RecordEncoder::Create(Tokenizer::Bytes(), options);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

std::string Trained(const EncodedDocument& document) {
  std::string text;
  EXPECT_EQ(document.tokens.size(), document.trained.size());
  for (size_t i = 0; i < document.tokens.size(); ++i) {
    if (document.trained[i] != 0) text.push_back(static_cast<char>(document.tokens[i]));
  }
  return text;
}

constexpr char kTemplate[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(RecordEncoderTest, PlainTextTrainsOnAllAndEndsWithEndOfText) {
  EncodedDocument document;
  ASSERT_TRUE(MakeEncoder("")->Encode(R"({"text":"ab"})", &document).ok());
  EXPECT_EQ(Trained(document), "ab");
  EXPECT_TRUE(document.ends_with_text_end);
}

TEST(RecordEncoderTest, CompletionsTrainWithoutTheirPrompt) {
  EncodedDocument document;
  ASSERT_TRUE(MakeEncoder("")->Encode(R"({"prompt":"ab","completion":"cd"})", &document).ok());
  EXPECT_EQ(document.tokens.size(), 4u);
  EXPECT_EQ(Trained(document), "cd");
  EXPECT_TRUE(document.ends_with_text_end);
}

TEST(RecordEncoderTest, ConversationsTrainOnTheAssistant) {
  EncodedDocument document;
  const auto encoder = MakeEncoder(kTemplate);
  const absl::Status status =
      encoder->Encode(R"({"instruction":"a","input":"b","output":"c"})", &document);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::string(document.tokens.begin(), document.tokens.end()),
            "<user>a\nb</>\n<assistant>c</>\n");
  EXPECT_EQ(Trained(document), "c</>");
  EXPECT_FALSE(document.ends_with_text_end);
}

TEST(RecordEncoderTest, MissingOrDamagedTemplatesAreToldWhenNeeded) {
  EncodedDocument document;
  const std::string chat = R"({"messages":[{"role":"assistant","content":"a"}]})";
  EXPECT_THAT(MakeEncoder("")->Encode(chat, &document).message(),
              HasSubstr("needs a chat template"));
  const auto damaged = MakeEncoder("{% if");
  EXPECT_THAT(damaged->Encode(chat, &document).message(), HasSubstr("chat template line 1"));
  EXPECT_TRUE(damaged->Encode(R"({"text":"a"})", &document).ok());
}

TEST(RecordEncoderTest, NothingToTrainIsAnError) {
  EncodedDocument document;
  const auto encoder =
      MakeEncoder("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}");
  EXPECT_THAT(
      encoder
          ->Encode(
              R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})",
              &document)
          .message(),
      HasSubstr("nothing to train on"));
}

}  // namespace
}  // namespace strata::data
