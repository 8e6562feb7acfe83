// JSON of tokenizer files: a tree of values, read with limits, and typed access to its fields.
// Messages name the field ("model.merges: …"); the caller puts the file's path before them.
#ifndef STRATA_DATA_TOKENIZER_JSON_H_
#define STRATA_DATA_TOKENIZER_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/vocabulary.h"

namespace strata::data {

using Json = nlohmann::json;

// Values of a file that are too many for a tree.
struct LargeValues {
  Vocabulary vocabulary;                                    // of the object model.vocab
  std::vector<std::pair<std::string, std::string>> merges;  // of the list model.merges
};

// Parses `text`. With `large` (may be null) the object at "vocab" and the list at "merges" of the
// object at "model" are put there and left out of the tree. InvalidArgument: not JSON, a key twice,
// or nested too deep.
absl::StatusOr<Json> ParseJson(std::string_view text, LargeValues* large);
// The same for a text that is a vocabulary: an object of tokens and their ids.
absl::StatusOr<Vocabulary> ParseVocabulary(std::string_view text);

// "a b": two texts with a space between.
absl::StatusOr<std::pair<std::string, std::string>> ParseMerge(std::string_view line);

// A field of an object; null if it is absent or null.
const Json* Field(const Json& object, const char* key);

// Typed fields: absent or null means the default; another type is InvalidArgument.
absl::Status GetBool(const Json& object, const char* key, bool* value);
absl::Status GetText(const Json& object, const char* key, std::string* value);
absl::Status GetOptionalText(const Json& object, const char* key,
                             std::optional<std::string>* value);
absl::Status GetCount(const Json& object, const char* key, int64_t* value);
// The text at "type"; InvalidArgument without one.
absl::StatusOr<std::string> TypeOf(const Json& object, const char* what);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_JSON_H_
