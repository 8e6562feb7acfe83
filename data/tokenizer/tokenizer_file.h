// tokenizer.json and GPT-2's pairs of files, read into what a tokenizer consists of.
#ifndef STRATA_DATA_TOKENIZER_TOKENIZER_FILE_H_
#define STRATA_DATA_TOKENIZER_TOKENIZER_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "data/tokenizer/parts.h"

namespace strata::data {

// Fills in all but the tokens' roles and the chat template. Messages do not name the file.
absl::Status ReadTokenizerJson(std::string_view text, TokenizerParts* parts);

// The same for GPT-2's tokenizer, of which only the vocabulary (a JSON object) and the merges (a
// line each) are files. `special`: texts of special tokens, as far as they are in the vocabulary.
absl::Status ReadGpt2Files(std::string_view vocabulary, std::string_view merges,
                           const std::vector<std::string>& special, TokenizerParts* parts);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_TOKENIZER_FILE_H_
