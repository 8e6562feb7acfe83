#include "controller/service/requests/filter_language.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

using google::protobuf::Message;

constexpr int kDeepest = 32;  // parentheses and negations

absl::Status At(size_t column, const std::string& what) {
  return InvalidField("filter", absl::StrCat("column ", column + 1, ": ", what));
}

struct Token {
  enum class Kind { kEnd, kWord, kText, kOperator, kOpen, kClose };
  Kind kind = Kind::kEnd;
  std::string text;
  size_t column = 0;
};

bool IsWord(char c) {
  return !absl::ascii_isspace(static_cast<unsigned char>(c)) &&
         absl::string_view("()=!<>:\"").find(c) == absl::string_view::npos;
}

absl::StatusOr<Token> ReadQuoted(absl::string_view filter, size_t& at) {
  Token token{Token::Kind::kText, "", at};
  for (++at; at < filter.size(); ++at) {
    if (filter[at] == '"') {
      ++at;
      return token;
    }
    if (filter[at] == '\\' && at + 1 < filter.size()) ++at;
    token.text.push_back(filter[at]);
  }
  return At(token.column, "the quote is not closed");
}

absl::StatusOr<std::vector<Token>> Tokens(absl::string_view filter) {
  using Kind = Token::Kind;
  std::vector<Token> tokens;
  size_t at = 0;
  while (at < filter.size()) {
    const char c = filter[at];
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else if (c == '(' || c == ')') {
      tokens.push_back({c == '(' ? Kind::kOpen : Kind::kClose, std::string(1, c), at++});
    } else if (c == '"') {
      ASSIGN_OR_RETURN(Token token, ReadQuoted(filter, at));
      tokens.push_back(std::move(token));
    } else if (IsWord(c)) {
      // Times have colons.
      const bool value = !tokens.empty() && tokens.back().kind == Kind::kOperator;
      const size_t begin = at;
      while (at < filter.size() && (IsWord(filter[at]) || (value && filter[at] == ':'))) ++at;
      tokens.push_back({Kind::kWord, std::string(filter.substr(begin, at - begin)), begin});
    } else {
      const bool two = at + 1 < filter.size() && filter[at + 1] == '=' && c != '=' && c != ':';
      if (c == '!' && !two) return At(at, "! stands alone — write != or NOT");
      tokens.push_back({Kind::kOperator, std::string(filter.substr(at, two ? 2 : 1)), at});
      at += two ? 2 : 1;
    }
  }
  tokens.push_back({Kind::kEnd, "", filter.size()});
  return tokens;
}

// `*` at the ends of a pattern stands for anything.
bool Matches(absl::string_view text, absl::string_view pattern) {
  const bool open_begin = absl::ConsumePrefix(&pattern, "*");
  const bool open_end = absl::ConsumeSuffix(&pattern, "*");
  if (open_begin && open_end) return absl::StrContains(text, pattern);
  if (open_begin) return absl::EndsWith(text, pattern);
  return open_end ? absl::StartsWith(text, pattern) : text == pattern;
}

absl::StatusOr<RecordFilter> CompareTexts(const std::string& name, const TextField& field,
                                          const Token& sign, const Token& value) {
  std::string wanted = value.text;
  if (field.read != nullptr) {
    absl::StatusOr<std::string> read = field.read(value.text, sign.text == ":");
    if (!read.ok()) return At(value.column, std::string(read.status().message()));
    wanted = *std::move(read);
  }
  if (sign.text == ":") {
    return [of = field.of, wanted](const Message& record) {
      const std::optional<std::string> text = of(record);
      return text.has_value() && (wanted == "*" || absl::StrContains(*text, wanted));
    };
  }
  if (sign.text != "=" && sign.text != "!=") {
    return At(sign.column, absl::StrCat(name, " is a text: ", sign.text,
                                        " does not go with it — use =, != or :"));
  }
  return [of = field.of, wanted, equal = sign.text == "="](const Message& record) {
    const std::optional<std::string> text = of(record);
    return (text.has_value() && Matches(*text, wanted)) == equal;
  };
}

absl::StatusOr<RecordFilter> CompareNumbers(const NumberField& field, const Token& sign,
                                            const Token& value) {
  double wanted = 0;
  absl::Time time;
  std::string error;
  if (field.is_time) {
    if (!absl::ParseTime(absl::RFC3339_full, value.text, &time, &error)) {
      return At(value.column, absl::StrCat(value.text, " is no time such as 2026-11-23T07:00:00Z"));
    }
    wanted = absl::ToDoubleSeconds(time - absl::UnixEpoch());
  } else if (!absl::SimpleAtod(value.text, &wanted)) {
    return At(value.column, absl::StrCat(value.text, " is no number"));
  }
  return [of = field.of, wanted, sign = sign.text](const Message& record) {
    const double number = of(record);
    if (sign == "<") return number < wanted;
    if (sign == "<=") return number <= wanted;
    if (sign == ">") return number > wanted;
    if (sign == ">=") return number >= wanted;
    return (number == wanted) == (sign != "!=");
  };
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, const FilterFields& fields)
      : tokens_(std::move(tokens)), fields_(fields) {}

  absl::StatusOr<RecordFilter> Whole() {
    ASSIGN_OR_RETURN(RecordFilter filter, Filter(0));
    if (Next().kind == Token::Kind::kEnd) return filter;
    return At(Next().column, absl::StrCat(Next().text, " is not expected here"));
  }

 private:
  const Token& Next() const { return tokens_[at_]; }
  bool IsKeyword(const char* word) const {
    return Next().kind == Token::Kind::kWord && Next().text == word;
  }
  bool Take(const char* word) {
    if (!IsKeyword(word)) return false;
    ++at_;
    return true;
  }

  // AND and mere succession mean the same.
  absl::StatusOr<RecordFilter> Filter(int depth) {
    std::vector<RecordFilter> all;
    do {
      ASSIGN_OR_RETURN(RecordFilter factor, Factor(depth));
      all.push_back(std::move(factor));
    } while (Take("AND") ||
             (Next().kind != Token::Kind::kEnd && Next().kind != Token::Kind::kClose));
    return RecordFilter([all](const Message& record) {
      return std::all_of(all.begin(), all.end(), [&](const auto& one) { return one(record); });
    });
  }

  absl::StatusOr<RecordFilter> Factor(int depth) {
    std::vector<RecordFilter> any;
    do {
      ASSIGN_OR_RETURN(RecordFilter term, Term(depth));
      any.push_back(std::move(term));
    } while (Take("OR"));
    return RecordFilter([any](const Message& record) {
      return std::any_of(any.begin(), any.end(), [&](const auto& one) { return one(record); });
    });
  }

  absl::StatusOr<RecordFilter> Term(int depth) {
    if (depth > kDeepest) return At(Next().column, "is nested too deeply");
    if (Take("NOT")) return Not(depth);
    if (Next().kind == Token::Kind::kWord && Next().text[0] == '-') {
      tokens_[at_].text.erase(0, 1);
      ++tokens_[at_].column;
      if (Next().text.empty()) ++at_;
      return Not(depth);
    }
    if (Next().kind != Token::Kind::kOpen) return Comparison();
    const size_t opened = Next().column;
    ++at_;
    ASSIGN_OR_RETURN(RecordFilter inner, Filter(depth + 1));
    if (Next().kind != Token::Kind::kClose) return At(opened, "the parenthesis is not closed");
    ++at_;
    return inner;
  }

  absl::StatusOr<RecordFilter> Not(int depth) {
    ASSIGN_OR_RETURN(RecordFilter inner, Term(depth + 1));
    return RecordFilter([inner](const Message& record) { return !inner(record); });
  }

  absl::StatusOr<RecordFilter> Comparison() {
    const Token field = Next();
    if (field.kind != Token::Kind::kWord) {
      return At(field.column,
                field.kind == Token::Kind::kEnd
                    ? absl::StrCat("a comparison is missing, such as ", fields_.example)
                    : absl::StrCat(field.text, " stands where a field is expected"));
    }
    ++at_;
    const std::optional<FilterField> known = fields_.find(field.text);
    if (!known.has_value()) {
      return At(field.column, absl::StrCat("there is no field ", field.text, " — the fields are ",
                                           fields_.names));
    }
    const Token sign = Next();
    if (sign.kind != Token::Kind::kOperator) {
      return At(sign.column,
                absl::StrCat("a comparison of ", field.text, " is missing (= != < <= > >= :)"));
    }
    ++at_;
    const Token value = Next();
    if (value.kind != Token::Kind::kWord && value.kind != Token::Kind::kText) {
      return At(value.column, absl::StrCat("a value is missing after ", sign.text));
    }
    ++at_;
    if (const TextField* const text = std::get_if<TextField>(&*known); text != nullptr) {
      return CompareTexts(field.text, *text, sign, value);
    }
    return CompareNumbers(std::get<NumberField>(*known), sign, value);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  const FilterFields& fields_;
};

}  // namespace

absl::StatusOr<RecordFilter> ParseFilter(absl::string_view filter, const FilterFields& fields) {
  if (filter.size() > kMostFilterBytes) {
    return InvalidField("filter", absl::StrCat("at most ", kMostFilterBytes, " bytes"));
  }
  if (absl::StripAsciiWhitespace(filter).empty()) {
    return RecordFilter([](const Message&) { return true; });
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokens(filter));
  return Parser(std::move(tokens), fields).Whole();
}

}  // namespace strata::controller
