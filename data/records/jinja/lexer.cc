#include "data/records/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/text.h"
#include "data/tokenizer/utf8.h"

namespace strata::data::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<uint8_t>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<uint8_t>(c)); }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Newlines of all kinds become "\n"; one at the end goes.
std::string Normalize(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    const bool pair = source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
    if (!pair) out.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(Normalize(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) RETURN_IF_ERROR(Data());
    Emit(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool At(std::string_view what) const { return Rest().substr(0, what.size()) == what; }
  absl::Status Error(std::string_view what) const { return TemplateError(line_, what); }
  void Emit(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Advance(size_t count) {
    const auto begin = source_.begin() + static_cast<ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<ptrdiff_t>(count), '\n'));
    at_ += count;
  }

  // Text up to the next tag, and the tag.
  absl::Status Data() {
    size_t tag = at_;
    do {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        EmitText(Rest());
        Advance(source_.size() - at_);
        return absl::OkStatus();
      }
      ++tag;
    } while (source_[tag] != '{' && source_[tag] != '%' && source_[tag] != '#');
    --tag;
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    std::string_view text = Rest().substr(0, tag - at_);
    if (sign == '-') {
      text = Strip(text, std::nullopt, false, true);
    } else if (sign != '+' && kind != '{') {
      text = WithoutIndentation(text);
    }
    EmitText(text);
    Advance(tag - at_);
    const size_t length = sign == '-' || sign == '+' ? 3 : 2;
    if (kind == '#') return Comment(length);
    if (kind == '%' && IsRaw(length)) return Raw();
    Emit(kind == '{' ? Kind::kVariableBegin : Kind::kBlockBegin, "");
    Advance(length);
    return Inside(kind == '{');
  }

  void EmitText(std::string_view text) {
    if (!text.empty()) Emit(Kind::kData, std::string(text));
  }

  // Without what stands on its last line, if that is white space only.
  std::string_view WithoutIndentation(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starts_) return text;
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool blank = Strip(text.substr(begin), std::nullopt, true, false).empty();
    return blank ? text.substr(0, begin) : text;
  }

  // Past the end of a tag at the current place, which is `marks` long with its sign, and past the
  // white space that goes with it.
  void EndTag(size_t marks, bool trims, bool newline_goes) {
    Advance(marks);
    size_t more = 0;
    if (trims) {
      more = Rest().size() - Strip(Rest(), std::nullopt, true, false).size();
    } else if (newline_goes && At("\n")) {
      more = 1;
    }
    line_starts_ = more > 0 && source_[at_ + more - 1] == '\n';
    Advance(more);
  }

  absl::Status Comment(size_t length) {
    const size_t end = source_.find("#}", at_ + length);
    if (end == std::string::npos) return Error("a comment without its end: #}");
    const char sign = end > at_ + length ? source_[end - 1] : ' ';
    Advance(end - at_);
    EndTag(2, sign == '-', sign != '+');
    return absl::OkStatus();
  }

  // Whether the block at the current place is `raw`; then `raw_end_` is the end of its tag.
  bool IsRaw(size_t length) {
    std::string_view rest = Strip(Rest().substr(length), std::nullopt, true, false);
    if (rest.substr(0, 3) != "raw") return false;
    rest = Strip(rest.substr(3), std::nullopt, true, false);
    const bool trims = rest.substr(0, 1) == "-";
    if (trims) rest.remove_prefix(1);
    if (rest.substr(0, 2) != "%}") return false;
    raw_trims_ = trims;
    raw_end_ = source_.size() - rest.size();
    return true;
  }

  absl::Status Raw() {
    Advance(raw_end_ - at_);
    EndTag(2, raw_trims_, true);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      std::string_view rest = std::string_view(source_).substr(tag + 2);
      const char sign = rest.empty() ? ' ' : rest[0];
      if (sign == '-' || sign == '+') rest.remove_prefix(1);
      rest = Strip(rest, std::nullopt, true, false);
      if (rest.substr(0, 6) != "endraw") continue;
      rest = Strip(rest.substr(6), std::nullopt, true, false);
      const char end_sign = rest.empty() ? ' ' : rest[0];
      if (end_sign == '-' || end_sign == '+') rest.remove_prefix(1);
      if (rest.substr(0, 2) != "%}") continue;
      std::string_view text = Rest().substr(0, tag - at_);
      if (sign == '-') text = Strip(text, std::nullopt, false, true);
      if (sign != '-' && sign != '+') text = WithoutIndentation(text);
      EmitText(text);
      Advance(source_.size() - rest.size() - at_);
      EndTag(2, end_sign == '-', end_sign != '+');
      return absl::OkStatus();
    }
    return Error("{% raw %} without {% endraw %}");
  }

  // The words of a tag, and its end.
  absl::Status Inside(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    std::string open;  // brackets
    while (true) {
      const size_t blanks = Rest().size() - Strip(Rest(), std::nullopt, true, false).size();
      Advance(blanks);
      if (Rest().empty())
        return Error(
            absl::StrCat("a tag without its end: ", absl::string_view(end.data(), end.size())));
      const char sign = source_[at_];
      const bool signed_end =
          (sign == '-' || (sign == '+' && !variable)) && Rest().substr(1, 2) == end;
      if (open.empty() && (signed_end || At(end))) {
        Emit(variable ? Kind::kVariableEnd : Kind::kBlockEnd, "");
        EndTag(signed_end ? 3 : 2, signed_end && sign == '-', !variable && !signed_end);
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(Word(&open));
    }
  }

  absl::Status Word(std::string* open) {
    const char c = source_[at_];
    if (IsNameStart(c)) {
      size_t size = 1;
      while (at_ + size < source_.size() && IsNamePart(source_[at_ + size])) ++size;
      Emit(Kind::kName, source_.substr(at_, size));
      Advance(size);
      return absl::OkStatus();
    }
    if (IsDigit(c)) return Number();
    if (c == '\'' || c == '"') return String(c);
    for (const std::string_view text : kOperators) {
      if (!At(text)) continue;
      RETURN_IF_ERROR(Balance(c, open));
      Emit(Kind::kOperator, std::string(text));
      Advance(text.size());
      return absl::OkStatus();
    }
    return Error(absl::StrCat("unexpected character '",
                              std::string(Excerpt(Rest(), DecodeAt(&source_[at_]).size)), "'"));
  }

  absl::Status Balance(char c, std::string* open) {
    static constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(c) != std::string_view::npos) open->push_back(c);
    const size_t closes = kClose.find(c);
    if (closes == std::string_view::npos) return absl::OkStatus();
    if (open->empty() || open->back() != kOpen[closes]) {
      return Error(absl::StrCat("unexpected '", std::string(1, c), "'"));
    }
    open->pop_back();
    return absl::OkStatus();
  }

  size_t Digits(size_t at) const {
    size_t size = 0;
    while (at + size < source_.size() && IsDigit(source_[at + size])) ++size;
    return size;
  }

  // Decimal integers and floats.
  absl::Status Number() {
    size_t size = Digits(at_);
    const auto next = [&](size_t i) { return at_ + i < source_.size() ? source_[at_ + i] : ' '; };
    bool is_float = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && next(size) == '.' && IsDigit(next(size + 1))) {
      size += 1 + Digits(at_ + size + 1);
      is_float = true;
    }
    if (!after_dot && (next(size) == 'e' || next(size) == 'E')) {
      const size_t sign = next(size + 1) == '+' || next(size + 1) == '-' ? 1 : 0;
      if (const size_t digits = Digits(at_ + size + 1 + sign); digits > 0) {
        size += 1 + sign + digits;
        is_float = true;
      }
    }
    if (IsNamePart(next(size))) return Error("this way of writing a number is not supported");
    Emit(is_float ? Kind::kFloat : Kind::kInteger, source_.substr(at_, size));
    Advance(size);
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    std::string text;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\') {
        text.push_back(source_[i++]);
        continue;
      }
      RETURN_IF_ERROR(Escape(&i, &text));
    }
    if (i >= source_.size()) return Error("a text without its closing quote");
    Emit(Kind::kString, std::move(text));
    Advance(i + 1 - at_);
    return absl::OkStatus();
  }

  // The escape at *i, which is a backslash; Python's.
  absl::Status Escape(size_t* i, std::string* text) {
    if (*i + 1 >= source_.size()) return Error("a text without its closing quote");
    const char c = source_[*i + 1];
    static constexpr std::string_view kNamed = "\\'\"abfnrtv", kMeaning = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t named = kNamed.find(c); named != std::string_view::npos) {
      text->push_back(kMeaning[named]);
      *i += 2;
      return absl::OkStatus();
    }
    if (c == '\n') {
      *i += 2;
      return absl::OkStatus();
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    int base = 16;
    size_t begin = *i + 2;
    if (c >= '0' && c <= '7') {
      base = 8;
      begin = *i + 1;
      while (digits < 3 && begin + digits < source_.size() && source_[begin + digits] >= '0' &&
             source_[begin + digits] <= '7') {
        ++digits;
      }
    }
    if (c == 'N') return Error("characters by name (\\N) are not supported");
    if (digits == 0) {  // no escape: the backslash stands for itself
      text->push_back('\\');
      ++*i;
      return absl::OkStatus();
    }
    uint32_t character = 0;
    const char* const first = source_.data() + begin;
    const char* const last = first + std::min(digits, source_.size() - begin);
    const auto read = std::from_chars(first, last, character, base);
    if (read.ec != std::errc() || read.ptr != first + digits || character > 0x10FFFF ||
        (character >= 0xD800 && character <= 0xDFFF)) {
      return Error("an escape in a text is no character");
    }
    AppendUtf8(character, text);
    *i = begin + digits;
    return absl::OkStatus();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // the last tag ended with its line
  size_t raw_end_ = 0;
  bool raw_trims_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status TemplateError(int line, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("template line ", line, ": ", absl::string_view(what.data(), what.size())));
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace strata::data::jinja
