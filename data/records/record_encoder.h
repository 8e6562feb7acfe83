// From one record of a JSONL file to the tokens of a document, and which of them are trained on.
//
// A plain document trains on all its tokens, {"prompt", "completion"} on the completion's, a
// conversation on the assistant's turns, end of turn included (chat_template.h says where they
// are). A text is encoded as a whole, as transformers does it; a token that reaches over a border
// is trained on if any of its bytes is.
#ifndef STRATA_DATA_RECORDS_RECORD_ENCODER_H_
#define STRATA_DATA_RECORDS_RECORD_ENCODER_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/records/chat_template.h"
#include "data/records/record.h"
#include "data/records/token_spans.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {

struct EncodedDocument {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;  // per token: 1: it is a target to train on
  // Whether the writer is to append the end-of-text token, trained: plain documents; not after
  // chats, whose last turn has an end of its own.
  bool ends_with_text_end = false;
};

struct RecordOptions {
  std::string chat_template;    // instead of the tokenizer's; empty: the tokenizer's
  std::optional<std::tm> date;  // what templates are told the date is; absent: now, in UTC
};

// The chat template of a tokenizer (or the options'), with its special tokens. FailedPrecondition:
// there is none. InvalidArgument: it is damaged or not supported.
absl::StatusOr<std::unique_ptr<const ChatTemplate>> LoadChatTemplate(const Tokenizer& tokenizer,
                                                                     const RecordOptions& options);

// Immutable; any number of threads may use it at once.
class RecordEncoder {
 public:
  // A chat template that is missing or unusable is told only once a conversation needs it.
  static absl::StatusOr<std::unique_ptr<const RecordEncoder>> Create(
      std::shared_ptr<const Tokenizer> tokenizer, const RecordOptions& options = {});

  // One JSONL record; record.h says which kinds there are. Replaces what `out` holds. Errors say
  // what is wrong and where in the record ("messages[2].role: …"), without file and line, which the
  // caller knows: InvalidArgument, ResourceExhausted, and FailedPrecondition without a template.
  absl::Status Encode(std::string_view json, EncodedDocument* out) const;

 private:
  RecordEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                absl::StatusOr<std::unique_ptr<const ChatTemplate>> chat);
  absl::Status EncodePlain(const PlainRecord& record, EncodedDocument* out) const;
  absl::Status EncodeChat(const ChatRecord& record, EncodedDocument* out) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const absl::StatusOr<std::unique_ptr<const ChatTemplate>> chat_;
  const TokenSpans spans_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_RECORDS_RECORD_ENCODER_H_
