// The tokens of a template as a parser takes them.
#ifndef STRATA_DATA_RECORDS_JINJA_TOKEN_STREAM_H_
#define STRATA_DATA_RECORDS_JINJA_TOKEN_STREAM_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/records/jinja/lexer.h"

namespace strata::data::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Current() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void Advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

  bool Is(Token::Kind kind) const { return Current().kind == kind; }
  bool IsOperator(std::string_view text) const {
    return Is(Token::Kind::kOperator) && Current().text == text;
  }
  bool IsName(std::string_view text) const {
    return Is(Token::Kind::kName) && Current().text == text;
  }
  // Each advances if the current token is the one named.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  absl::Status Expect(Token::Kind kind);
  absl::Status ExpectOperator(std::string_view text);
  absl::StatusOr<std::string> ExpectName();
  // "expected …, found …", at the current token.
  absl::Status Unexpected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_TOKEN_STREAM_H_
