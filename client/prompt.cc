#include "client/prompt.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/chat_template.h"
#include "data/records/jinja/value.h"
#include "data/records/record_encoder.h"

namespace strata::client {
namespace {

using data::jinja::Value;

absl::Status Refuse(absl::string_view flag, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", absl::string_view(status.message()), "\n"));
}

absl::Status AddMessage(std::string_view role, const std::string& content,
                        data::Conversation& conversation) {
  data::jinja::Dict message;
  message.Set("role", Value::Text(std::string(role)));
  message.Set("content", Value::Text(content));
  conversation.bytes += content.size();
  ASSIGN_OR_RETURN(Value value, Value::Of(std::move(message)));
  conversation.messages.push_back(std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteChat(const data::ChatTemplate& chat, const PromptText& prompt) {
  data::Conversation conversation;
  if (!prompt.system.empty()) RETURN_IF_ERROR(AddMessage("system", prompt.system, conversation));
  RETURN_IF_ERROR(AddMessage("user", prompt.text, conversation));
  return chat.Render(conversation, /*add_generation_prompt=*/true);
}

// The token that ends a turn, if one does.
absl::Status AddTurnEnd(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat,
                        std::vector<int32_t>* stop) {
  std::vector<int32_t> end;
  RETURN_IF_ERROR(tokenizer.Encode(chat.turn_end(), &end));
  if (!end.empty() && (end.size() == 1 || tokenizer.IsSpecial(end[0]))) stop->push_back(end[0]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PromptTokens> EncodePrompt(const data::Tokenizer& tokenizer,
                                          const PromptText& prompt) {
  PromptTokens result;
  result.stop = tokenizer.end_of_generation();
  std::string text = prompt.text;
  if (prompt.chat) {
    const auto chat = data::LoadChatTemplate(tokenizer, {});
    if (!chat.ok()) return Refuse("--chat", chat.status());
    absl::StatusOr<std::string> written = WriteChat(**chat, prompt);
    if (!written.ok()) return Refuse("--chat", written.status());
    text = *std::move(written);
    RETURN_IF_ERROR(AddTurnEnd(tokenizer, **chat, &result.stop));
  }
  std::sort(result.stop.begin(), result.stop.end());
  result.stop.erase(std::unique(result.stop.begin(), result.stop.end()), result.stop.end());
  if (prompt.begun && !prompt.chat) result.tokens = tokenizer.text_start();  // templates have it
  const absl::Status encoded = tokenizer.Encode(text, &result.tokens);
  if (!encoded.ok()) return Refuse("--prompt", encoded);
  if (!result.tokens.empty()) return result;
  if (!tokenizer.end_of_text()) {
    return absl::InvalidArgumentError(
        "--prompt: is empty, and the tokenizer has no end-of-text token to begin after — give a "
        "text\n");
  }
  result.tokens.push_back(*tokenizer.end_of_text());
  return result;
}

}  // namespace strata::client
