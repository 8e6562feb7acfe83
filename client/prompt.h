// What `strata generate` asks a model with a tokenizer to go on from.
#ifndef STRATA_CLIENT_PROMPT_H_
#define STRATA_CLIENT_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::client {

struct PromptText {
  std::string text;
  bool chat = false;   // the text is a user's turn, which the model answers
  std::string system;  // of a chat; empty: none
  // It begins as the tokenizer's file begins texts (with BOS, where it has one).
  bool begun = false;
};

struct PromptTokens {
  std::vector<int32_t> tokens;  // at least one
  std::vector<int32_t> stop;    // what ends the text, ascending
};

// A plain text as it is, or `begun`; an empty one is the end-of-text token, after which a document
// begins. A chat as the tokenizer's template writes it, with the prompt to
// answer; then the end of a turn stops as well. InvalidArgument: the text is not UTF-8, an empty
// one is asked for where no token ends texts, there is no usable template, or it refuses this.
absl::StatusOr<PromptTokens> EncodePrompt(const data::Tokenizer& tokenizer,
                                          const PromptText& prompt);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PROMPT_H_
