// A regular expression of a tokenizer file, matched by PCRE2 with what Oniguruma means by it.
#ifndef STRATA_DATA_TOKENIZER_REGEX_H_
#define STRATA_DATA_TOKENIZER_REGEX_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::data {

// Immutable; any number of threads may match at once.
class Regex {
 public:
  // InvalidArgument and Unimplemented as TranslateRegex, or for what PCRE2 refuses.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(std::string_view pattern);

  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Calls `match` with the first byte and the end of each match in UTF-8 text, from left to right,
  // none overlapping; an empty match next to the one before is passed over.
  // ResourceExhausted: one match takes more steps or memory than the limits allow.
  absl::Status FindAll(std::string_view text,
                       absl::FunctionRef<void(size_t begin, size_t end)> match) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  const std::unique_ptr<Code> code_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_REGEX_H_
