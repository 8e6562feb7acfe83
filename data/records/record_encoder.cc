#include "data/records/record_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

std::tm Today() {
  const std::time_t now = static_cast<std::time_t>(common::WallSeconds());
  std::tm date{};
  gmtime_r(&now, &date);
  return date;
}

bool TrainsAnything(const EncodedDocument& document) {
  return std::find(document.trained.begin(), document.trained.end(), 1) != document.trained.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ChatTemplate>> LoadChatTemplate(const Tokenizer& tokenizer,
                                                                     const RecordOptions& options) {
  const std::string& source =
      options.chat_template.empty() ? tokenizer.chat_template() : options.chat_template;
  if (source.empty()) {
    return absl::FailedPreconditionError(
        "a conversation needs a chat template, and the tokenizer has none — name a tokenizer "
        "folder "
        "with chat_template.jinja, or with chat_template in its tokenizer_config.json");
  }
  std::vector<std::pair<std::string, std::string>> tokens = {
      {"bos_token", tokenizer.bos_token()},
      {"eos_token", tokenizer.eos_token()},
      {"unk_token", tokenizer.unk_token()},
      {"pad_token", tokenizer.pad_token()},
  };
  std::erase_if(tokens, [](const auto& token) { return token.second.empty(); });
  absl::StatusOr<std::unique_ptr<const ChatTemplate>> chat =
      ChatTemplate::Create(source, std::move(tokens), options.date.value_or(Today()));
  if (!chat.ok()) {
    return absl::Status(chat.status().code(),
                        absl::StrCat("the tokenizer's chat ", chat.status().message()));
  }
  return chat;
}

RecordEncoder::RecordEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                             absl::StatusOr<std::unique_ptr<const ChatTemplate>> chat)
    : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), spans_(tokenizer_) {}

absl::StatusOr<std::unique_ptr<const RecordEncoder>> RecordEncoder::Create(
    std::shared_ptr<const Tokenizer> tokenizer, const RecordOptions& options) {
  absl::StatusOr<std::unique_ptr<const ChatTemplate>> chat = LoadChatTemplate(*tokenizer, options);
  return std::unique_ptr<const RecordEncoder>(
      new RecordEncoder(std::move(tokenizer), std::move(chat)));
}

absl::Status RecordEncoder::Encode(std::string_view json, EncodedDocument* out) const {
  out->tokens.clear();
  out->trained.clear();
  out->ends_with_text_end = false;
  const bool keep_parts = chat_.ok() && (*chat_)->takes_parts();
  ASSIGN_OR_RETURN(const Record record, ReadRecord(json, keep_parts));
  if (const PlainRecord* plain = std::get_if<PlainRecord>(&record)) return EncodePlain(*plain, out);
  return EncodeChat(std::get<ChatRecord>(record), out);
}

absl::Status RecordEncoder::EncodePlain(const PlainRecord& record, EncodedDocument* out) const {
  out->ends_with_text_end = true;
  RETURN_IF_ERROR(tokenizer_->Encode(record.text, &out->tokens));
  if (record.trained_from == 0) {
    out->trained.assign(out->tokens.size(), 1);
    return absl::OkStatus();
  }
  const jinja::Span completion{record.trained_from, record.text.size()};
  return spans_.Mark(record.text, out->tokens, absl::MakeConstSpan(&completion, 1), &out->trained);
}

absl::Status RecordEncoder::EncodeChat(const ChatRecord& record, EncodedDocument* out) const {
  RETURN_IF_ERROR(chat_.status());
  ASSIGN_OR_RETURN(const ChatTemplate::Turns turns,
                   (*chat_)->RenderTurns(record.conversation, record.first_trained));
  RETURN_IF_ERROR(tokenizer_->Encode(turns.text, &out->tokens));
  RETURN_IF_ERROR(spans_.Mark(turns.text, out->tokens, turns.trained, &out->trained));
  if (TrainsAnything(*out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "nothing to train on: the chat template writes nothing of the assistant's turns");
}

}  // namespace strata::data
