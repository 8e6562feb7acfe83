// Regular expressions as tokenizer files write them (Oniguruma's Ruby syntax), rewritten for PCRE2.
#ifndef STRATA_DATA_TOKENIZER_REGEX_SYNTAX_H_
#define STRATA_DATA_TOKENIZER_REGEX_SYNTAX_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strata::data {

// The same expression for PCRE2 with UTF and UCP. What the two libraries understand differently is
// spelt out: \s (PCRE2's has U+180E), \w, \d and properties (characters newer than PCRE2's
// Unicode), the dot. InvalidArgument: malformed. Unimplemented: a construct whose meaning could
// differ, named.
absl::StatusOr<std::string> TranslateRegex(std::string_view pattern);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_REGEX_SYNTAX_H_
