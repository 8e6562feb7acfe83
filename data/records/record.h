// The kinds of records that files of training data hold, one JSON object each.
#ifndef STRATA_DATA_RECORDS_RECORD_H_
#define STRATA_DATA_RECORDS_RECORD_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "data/records/chat_template.h"

namespace strata::data {

// A document; trained are its bytes from `trained_from` on.
struct PlainRecord {
  std::string text;
  size_t trained_from = 0;
};

// A conversation; trained are the assistant's turns among messages [first_trained, …), of which
// there is at least one.
struct ChatRecord {
  Conversation conversation;
  size_t first_trained = 0;
};

using Record = std::variant<PlainRecord, ChatRecord>;

// Reads one record, whose kind its keys tell; keys that mean nothing here are left alone.
//   {"text"}                                       plain
//   {"prompt", "completion"}                       two texts: plain; two lists of messages: chat
//   {"messages", "tools"?}                         chat, as OpenAI writes it
//   {"conversations", "system"?, "tools"?}         chat, as ShareGPT does: {"from", "value"}
//   {"instruction", "input"?, "output", "system"?, "history"?}    chat, as Alpaca does
// `keep_parts`: content that is a list of text parts stays one; else the parts become one text.
// InvalidArgument says what is wrong and where: "messages[2].role: …".
absl::StatusOr<Record> ReadRecord(std::string_view json, bool keep_parts);

}  // namespace strata::data

#endif  // STRATA_DATA_RECORDS_RECORD_H_
