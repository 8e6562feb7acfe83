// What normalizers, pre-tokenizers and decoders look for in a text: a literal text or a regular
// expression.
#ifndef STRATA_DATA_TOKENIZER_PATTERN_H_
#define STRATA_DATA_TOKENIZER_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/regex.h"

namespace strata::data {

// A file may ask for one replacement after the other. Together they make no text more than so many
// times longer, or the file is refused: memory must not depend on who wrote it.
constexpr double kMostGrowth = 1000;

class Pattern {
 public:
  // Of {"String": "…"} or {"Regex": "…"}.
  static absl::StatusOr<Pattern> FromJson(const Json& object);
  static Pattern Literal(std::string text);

  // The expression; empty for a literal text.
  const std::string& regex() const { return regex_text_; }

  // As Regex::FindAll.
  absl::Status FindAll(std::string_view text,
                       absl::FunctionRef<void(size_t begin, size_t end)> match) const;
  // How many times longer replacing matches by `content` can make a text, at most.
  double Growth(std::string_view content) const;
  // Appends `text` with `content` in place of each match.
  absl::Status Replace(std::string_view text, std::string_view content, std::string* out) const;

 private:
  std::string literal_;
  std::string regex_text_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_PATTERN_H_
