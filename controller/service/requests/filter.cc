#include "controller/service/requests/filter.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr int kDeepest = 32;  // parentheses and negations
constexpr char kLabels[] = "spec.labels.";

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

std::string OrDefaultName(const std::string& name) { return name.empty() ? "default" : name; }

using TextOf = std::function<std::optional<std::string>(const v1::JobRecord&)>;
using NumberOf = std::function<double(const v1::JobRecord&)>;

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

std::optional<TextOf> TextField(const std::string& field) {
  if (field == "name") return [](const v1::JobRecord& job) { return ShortName(job.name()); };
  if (field == "owner") return [](const v1::JobRecord& job) { return job.owner(); };
  if (field == "state")
    return [](const v1::JobRecord& job) { return v1::Job::State_Name(job.state()); };
  if (field == "project" || field == "spec.project") {
    return [](const v1::JobRecord& job) { return OrDefaultName(job.spec().project()); };
  }
  if (field == "queue" || field == "spec.resources.queue") {
    return [](const v1::JobRecord& job) { return OrDefaultName(job.spec().resources().queue()); };
  }
  if (!absl::StartsWith(field, kLabels)) return std::nullopt;
  return [key = field.substr(sizeof(kLabels) - 1)](
             const v1::JobRecord& job) -> std::optional<std::string> {
    const auto found = job.spec().labels().find(key);
    if (found == job.spec().labels().end()) return std::nullopt;
    return found->second;
  };
}

std::optional<NumberOf> NumberField(const std::string& field) {
  if (field == "priority" || field == "spec.resources.priority") {
    return [](const v1::JobRecord& job) {
      return static_cast<double>(job.spec().resources().priority());
    };
  }
  if (field == "create_time") {
    return [](const v1::JobRecord& job) { return Seconds(job.create_time()); };
  }
  return std::nullopt;
}

absl::StatusOr<JobFilter> CompareTexts(const std::string& field, TextOf text_of, const Token& sign,
                                       const Token& value) {
  std::string wanted = value.text;
  if (field == "name") wanted = ShortName(wanted);
  if (field == "state" && sign.text != ":") {
    v1::Job::State state;
    if (!v1::Job::State_Parse(wanted, &state) || state == v1::Job::STATE_UNSPECIFIED) {
      return At(value.column, absl::StrCat(wanted, " is no state, such as RUNNING"));
    }
  }
  if (sign.text == ":") {
    return [text_of, wanted](const v1::JobRecord& job) {
      const std::optional<std::string> text = text_of(job);
      return text.has_value() && (wanted == "*" || absl::StrContains(*text, wanted));
    };
  }
  if (sign.text != "=" && sign.text != "!=") {
    return At(sign.column, absl::StrCat(field, " is a text: ", sign.text,
                                        " does not go with it — use =, != or :"));
  }
  return [text_of, wanted, equal = sign.text == "="](const v1::JobRecord& job) {
    const std::optional<std::string> text = text_of(job);
    return (text.has_value() && Matches(*text, wanted)) == equal;
  };
}

absl::StatusOr<JobFilter> CompareNumbers(const std::string& field, NumberOf number_of,
                                         const Token& sign, const Token& value) {
  double wanted = 0;
  absl::Time time;
  std::string error;
  if (field == "create_time") {
    if (!absl::ParseTime(absl::RFC3339_full, value.text, &time, &error)) {
      return At(value.column, absl::StrCat(value.text, " is no time such as 2026-11-23T07:00:00Z"));
    }
    wanted = absl::ToDoubleSeconds(time - absl::UnixEpoch());
  } else if (!absl::SimpleAtod(value.text, &wanted)) {
    return At(value.column, absl::StrCat(value.text, " is no number"));
  }
  return [number_of, wanted, sign = sign.text](const v1::JobRecord& job) {
    const double number = number_of(job);
    if (sign == "<") return number < wanted;
    if (sign == "<=") return number <= wanted;
    if (sign == ">") return number > wanted;
    if (sign == ">=") return number >= wanted;
    return (number == wanted) == (sign != "!=");
  };
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<JobFilter> Whole() {
    ASSIGN_OR_RETURN(JobFilter filter, Filter(0));
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
  absl::StatusOr<JobFilter> Filter(int depth) {
    std::vector<JobFilter> all;
    do {
      ASSIGN_OR_RETURN(JobFilter factor, Factor(depth));
      all.push_back(std::move(factor));
    } while (Take("AND") ||
             (Next().kind != Token::Kind::kEnd && Next().kind != Token::Kind::kClose));
    return JobFilter([all](const v1::JobRecord& job) {
      return std::all_of(all.begin(), all.end(), [&](const auto& one) { return one(job); });
    });
  }

  absl::StatusOr<JobFilter> Factor(int depth) {
    std::vector<JobFilter> any;
    do {
      ASSIGN_OR_RETURN(JobFilter term, Term(depth));
      any.push_back(std::move(term));
    } while (Take("OR"));
    return JobFilter([any](const v1::JobRecord& job) {
      return std::any_of(any.begin(), any.end(), [&](const auto& one) { return one(job); });
    });
  }

  absl::StatusOr<JobFilter> Term(int depth) {
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
    ASSIGN_OR_RETURN(JobFilter inner, Filter(depth + 1));
    if (Next().kind != Token::Kind::kClose) return At(opened, "the parenthesis is not closed");
    ++at_;
    return inner;
  }

  absl::StatusOr<JobFilter> Not(int depth) {
    ASSIGN_OR_RETURN(JobFilter inner, Term(depth + 1));
    return JobFilter([inner](const v1::JobRecord& job) { return !inner(job); });
  }

  absl::StatusOr<JobFilter> Comparison() {
    const Token field = Next();
    if (field.kind != Token::Kind::kWord) {
      return At(field.column, field.kind == Token::Kind::kEnd
                                  ? "a comparison is missing, such as state = RUNNING"
                                  : absl::StrCat(field.text, " stands where a field is expected"));
    }
    ++at_;
    const std::optional<TextOf> text = TextField(field.text);
    const std::optional<NumberOf> number = NumberField(field.text);
    if (!text.has_value() && !number.has_value()) {
      return At(field.column,
                absl::StrCat("there is no field ", field.text,
                             " — the fields are name, state, owner, project, queue, priority, "
                             "create_time and spec.labels.KEY"));
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
    return text.has_value() ? CompareTexts(field.text, *text, sign, value)
                            : CompareNumbers(field.text, *number, sign, value);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Less than, equal to (0), or greater than.
using Comparison = std::function<int(const v1::JobRecord&, const v1::JobRecord&)>;

std::optional<Comparison> OrderField(absl::string_view field) {
  const auto by_number = [](NumberOf number) -> Comparison {
    return [number](const v1::JobRecord& a, const v1::JobRecord& b) {
      const double left = number(a), right = number(b);
      return left < right ? -1 : left > right ? 1 : 0;
    };
  };
  if (field == "name" || field == "state") {
    return [text = *TextField(std::string(field))](const v1::JobRecord& a, const v1::JobRecord& b) {
      return text(a)->compare(*text(b));
    };
  }
  if (field == "step") {
    return by_number([](const v1::JobRecord& job) { return static_cast<double>(job.step()); });
  }
  if (field == "end_time") {
    return by_number([](const v1::JobRecord& job) { return Seconds(job.end_time()); });
  }
  if (const auto number = NumberField(std::string(field)); number.has_value()) {
    return by_number(*number);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<JobFilter> ParseFilter(absl::string_view filter) {
  if (filter.size() > kMostFilterBytes) {
    return InvalidField("filter", absl::StrCat("at most ", kMostFilterBytes, " bytes"));
  }
  if (absl::StripAsciiWhitespace(filter).empty()) {
    return JobFilter([](const v1::JobRecord&) { return true; });
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokens(filter));
  return Parser(std::move(tokens)).Whole();
}

absl::StatusOr<JobOrder> ParseOrder(absl::string_view order_by) {
  std::vector<std::pair<Comparison, bool>> keys;  // whether it descends
  for (const absl::string_view part : absl::StrSplit(order_by, ',')) {
    const std::vector<std::string> words =
        absl::StrSplit(part, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty() && keys.empty() && absl::StripAsciiWhitespace(order_by).empty()) break;
    const bool direction = words.size() == 2 && (words[1] == "desc" || words[1] == "asc");
    const auto field = words.empty() ? std::nullopt : OrderField(words[0]);
    if (!field.has_value() || keys.size() == 8 || !(words.size() == 1 || direction)) {
      return InvalidField(
          "order_by", absl::StrCat("\"", part.substr(0, 100),
                                   "\" is no order such as \"create_time desc\" — the fields "
                                   "are name, state, priority, create_time, end_time and step"));
    }
    keys.emplace_back(*field, direction && words[1] == "desc");
  }
  return JobOrder([keys](const v1::JobRecord& a, const v1::JobRecord& b) {
    for (const auto& [compare, descends] : keys) {
      const int order = compare(a, b);
      if (order != 0) return descends ? order > 0 : order < 0;
    }
    return a.name() < b.name();
  });
}

}  // namespace strata::controller
