// Cuts a template into tokens: text outside of tags, and the words inside.
//
// White space around tags goes as in Hugging Face's environment: trim_blocks (a newline right after
// a block or comment goes), lstrip_blocks (so do blanks before one that begins its line), `-` and
// `+` as written; one newline at the end of the template goes.
#ifndef STRATA_DATA_RECORDS_JINJA_LEXER_H_
#define STRATA_DATA_RECORDS_JINJA_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::data::jinja {

struct Token {
  enum class Kind {
    kData,  // text outside of tags
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // `text` is what it means, escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;
};

// InvalidArgument: "template line 3: …".
absl::Status TemplateError(int line, std::string_view what);

// The last token is kEnd. `source` is valid UTF-8.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_LEXER_H_
