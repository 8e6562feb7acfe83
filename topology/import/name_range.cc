#include "topology/import/name_range.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace strata::topology {
namespace {

constexpr size_t kMostDigits = 15;
constexpr int kDeepestParentheses = 16;

absl::Status Refused(absl::string_view why) { return absl::InvalidArgumentError(why); }

// Digits only.
absl::StatusOr<int64_t> NumberOf(absl::string_view text) {
  int64_t value = 0;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return Refused("must hold numbers such as [0-7] or [1-4,7]");
  }
  if (text.empty()) return Refused("lacks a number");
  if (text.size() > kMostDigits || !absl::SimpleAtoi(text, &value)) {
    return Refused("holds a number of more than 15 digits");
  }
  return value;
}

// One element of a host list: names with any number of brackets.
absl::Status ExpandHost(absl::string_view host, std::vector<std::string>& names) {
  std::vector<std::string> found = {""};
  while (!host.empty()) {
    const size_t open = host.find('[');
    for (std::string& name : found) absl::StrAppend(&name, host.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = host.find(']', open);
    if (close == absl::string_view::npos) return Refused("a '[' is never closed");
    ASSIGN_OR_RETURN(const NumberRange range,
                     NumberRange::Parse(host.substr(open + 1, close - open - 1)));
    if (static_cast<int64_t>(found.size() + names.size()) * range.count() > kMostNodes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("stands for more than ", kMostNodes, " names"));
    }
    std::vector<std::string> longer;
    for (const std::string& name : found) {
      for (const NumberRange::Piece& piece : range.pieces()) {
        for (int64_t i = piece.first; i <= piece.last; ++i) {
          longer.push_back(absl::StrCat(name, NumberRange::TextOf(i, piece.width)));
        }
      }
    }
    found = std::move(longer);
    host.remove_prefix(close + 1);
  }
  for (std::string& name : found) {
    if (name.empty()) return Refused("an empty name");
    if (name.find(']') != std::string::npos) return Refused("a ']' without its '['");
    names.push_back(std::move(name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NumberRange> NumberRange::Parse(absl::string_view text) {
  NumberRange range;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    const size_t dash = part.find('-');
    const absl::string_view first = part.substr(0, dash);
    Piece piece;
    ASSIGN_OR_RETURN(piece.first, NumberOf(first));
    piece.last = piece.first;
    if (dash != absl::string_view::npos) {
      ASSIGN_OR_RETURN(piece.last, NumberOf(part.substr(dash + 1)));
    }
    if (piece.last < piece.first) return Refused("holds a range that ends before it begins");
    piece.width = first.size() > 1 && first[0] == '0' ? first.size() : 1;
    range.count_ += piece.last - piece.first + 1;
    if (range.count_ > kMostNodes) {
      return Refused(absl::StrCat("stands for more than ", kMostNodes, " names"));
    }
    range.pieces_.push_back(piece);
  }
  return range;
}

std::string NumberRange::TextOf(int64_t number, size_t width) {
  std::string digits = absl::StrCat(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

absl::StatusOr<std::vector<std::string>> ExpandHosts(absl::string_view list) {
  std::vector<std::string> names;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
    if (c != ',' || (depth > 0 && i < list.size())) continue;
    RETURN_IF_ERROR(ExpandHost(absl::StripAsciiWhitespace(list.substr(begin, i - begin)), names));
    if (names.empty() || begin == i) return Refused("an empty name");
    begin = i + 1;
  }
  return names;
}

// expression: term {(+|-) term}; term: factor {(*|/|%) factor}; factor: number, i, (expression).
class ExpressionParser {
 public:
  ExpressionParser(absl::string_view text, std::vector<NumberedText::Operation>& operations)
      : text_(text), operations_(operations) {}

  absl::Status Parse() {
    RETURN_IF_ERROR(Expression(0));
    return Next() == 0 ? absl::OkStatus() : Unexpected();
  }

 private:
  char Next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  absl::Status Unexpected() {
    return Refused(
        "must hold arithmetic of i, the node's number, such as {i/128} or {(i+1)%4} (+ - * / %)");
  }
  absl::Status Expression(int depth) {
    RETURN_IF_ERROR(Term(depth));
    while (Next() == '+' || Next() == '-') {
      const char code = text_[at_++];
      RETURN_IF_ERROR(Term(depth));
      operations_.push_back({code});
    }
    return absl::OkStatus();
  }
  absl::Status Term(int depth) {
    RETURN_IF_ERROR(Factor(depth));
    while (Next() == '*' || Next() == '/' || Next() == '%') {
      const char code = text_[at_++];
      RETURN_IF_ERROR(Factor(depth));
      operations_.push_back({code});
    }
    return absl::OkStatus();
  }
  absl::Status Factor(int depth) {
    const char c = Next();
    if (c == 'i') {
      ++at_;
      operations_.push_back({'i'});
      return absl::OkStatus();
    }
    if (c == '(') {
      if (depth >= kDeepestParentheses) return Refused("has too many parentheses");
      ++at_;
      RETURN_IF_ERROR(Expression(depth + 1));
      if (Next() != ')') return Unexpected();
      ++at_;
      return absl::OkStatus();
    }
    const size_t begin = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
    if (at_ == begin) return Unexpected();
    ASSIGN_OR_RETURN(const int64_t value, NumberOf(text_.substr(begin, at_ - begin)));
    operations_.push_back({'#', value});
    return absl::OkStatus();
  }

  absl::string_view text_;
  std::vector<NumberedText::Operation>& operations_;
  size_t at_ = 0;
};

absl::StatusOr<NumberedText> NumberedText::Parse(absl::string_view text) {
  NumberedText parsed;
  while (!text.empty()) {
    const size_t open = text.find('{');
    Part part{.literal = std::string(text.substr(0, open))};
    if (part.literal.find('}') != std::string::npos) return Refused("has a '}' without its '{'");
    if (open == absl::string_view::npos) {
      parsed.parts_.push_back(std::move(part));
      break;
    }
    const size_t close = text.find('}', open);
    if (close == absl::string_view::npos) return Refused("has a '{' that is never closed");
    const absl::string_view inside = text.substr(open + 1, close - open - 1);
    RETURN_IF_ERROR(ExpressionParser(inside, part.expression).Parse());
    parsed.parts_.push_back(std::move(part));
    text.remove_prefix(close + 1);
  }
  return parsed;
}

absl::StatusOr<std::string> NumberedText::For(int64_t i) const {
  std::string text;
  std::vector<int64_t> stack;
  for (const Part& part : parts_) {
    text += part.literal;
    if (part.expression.empty()) continue;
    stack.clear();
    for (const Operation& operation : part.expression) {
      if (operation.code == '#' || operation.code == 'i') {
        stack.push_back(operation.code == 'i' ? i : operation.value);
        continue;
      }
      const int64_t right = stack.back();
      stack.pop_back();
      int64_t& left = stack.back();
      bool overflow = false;
      switch (operation.code) {
        case '+':
          overflow = __builtin_add_overflow(left, right, &left);
          break;
        case '-':
          overflow = __builtin_sub_overflow(left, right, &left);
          break;
        case '*':
          overflow = __builtin_mul_overflow(left, right, &left);
          break;
        default:
          if (right == 0) return Refused(absl::StrCat("divides by zero where i is ", i));
          if (right == -1) {  // the one quotient that can overflow
            overflow = __builtin_sub_overflow(int64_t{0}, left, &left);
            if (operation.code == '%') left = 0;
          } else {
            left = operation.code == '/' ? left / right : left % right;
          }
      }
      if (overflow) return Refused(absl::StrCat("is beyond 64 bits where i is ", i));
    }
    absl::StrAppend(&text, stack.back());
  }
  return text;
}

}  // namespace strata::topology
