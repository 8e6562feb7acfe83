#include "data/records/jinja/token_stream.h"

#include "absl/strings/str_cat.h"

namespace strata::data::jinja {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kVariableEnd:
      return "'}}'";
    case Token::Kind::kBlockEnd:
      return "'%}'";
    case Token::Kind::kEnd:
      return "the end of the template";
    case Token::Kind::kData:
    case Token::Kind::kVariableBegin:
    case Token::Kind::kBlockBegin:
      return "another tag";
    default:
      return absl::StrCat("'", token.text, "'");
  }
}

}  // namespace

bool TokenStream::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Advance();
  return true;
}

bool TokenStream::TakeName(std::string_view text) {
  if (!IsName(text)) return false;
  Advance();
  return true;
}

absl::Status TokenStream::Unexpected(std::string_view expected) const {
  return TemplateError(Current().line, absl::StrCat("expected ", std::string(expected), ", found ",
                                                    Describe(Current())));
}

absl::Status TokenStream::Expect(Token::Kind kind) {
  if (!Is(kind)) return Unexpected(kind == Token::Kind::kVariableEnd ? "'}}'" : "'%}'");
  Advance();
  return absl::OkStatus();
}

absl::Status TokenStream::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) return Unexpected(absl::StrCat("'", std::string(text), "'"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStream::ExpectName() {
  if (!Is(Token::Kind::kName)) return Unexpected("a name");
  std::string name = Current().text;
  Advance();
  return name;
}

}  // namespace strata::data::jinja
