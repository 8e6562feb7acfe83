#include "data/tokenizer/splitter.h"

#include <cstdint>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A stretch of text with the class of its first character.
class Cursor {
 public:
  Cursor(const char* at, const char* end) : at_(at), end_(end), classes_(SplitClasses()) { Read(); }

  const char* at() const { return at_; }
  bool is_end() const { return at_ == end_; }
  bool Is(SplitClass c) const { return !is_end() && class_ == c; }
  bool IsByte(char c) const { return !is_end() && *at_ == c; }
  bool IsSpace() const { return Is(kSpaceClass) || Is(kNewlineClass); }
  void Advance() {
    at_ += size_;
    Read();
  }
  void Skip(SplitClass c) {
    while (Is(c)) Advance();
  }

 private:
  void Read() {
    if (at_ == end_) return;
    const Character c = DecodeAt(at_);
    size_ = c.size;
    class_ = classes_[c.code];
  }

  const char* at_;
  const char* const end_;
  const SplitClass* const classes_;
  uint32_t size_ = 0;
  SplitClass class_ = kOtherClass;
};

// The end of 's, 't, 're, 've, 'm, 'll or 'd; null: it is none of them. `at` is an apostrophe.
const char* EndOfContraction(const char* at, const char* end, bool any_case) {
  const auto letter = [&](int i) -> char {
    if (end - at <= i) return 0;
    const char c = at[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (first == 'r' || first == 'v') return second == 'e' ? at + 3 : nullptr;
  if (first == 'l') return second == 'l' ? at + 3 : nullptr;
  // The long s is another case of s.
  if (any_case && first == '\xC5' && second == '\xBF') return at + 3;
  return nullptr;
}

// The end of a run of white space that begins here: of what `\s+(?!\S)|\s+` matches.
const char* EndOfSpace(Cursor cursor) {
  const char* const begin = cursor.at();
  const char* last = begin;
  while (cursor.IsSpace()) {
    last = cursor.at();
    cursor.Advance();
  }
  return cursor.is_end() || last == begin ? cursor.at() : last;
}

// The same after `\s*[\r\n]+|`.
const char* EndOfSpaceOrLines(Cursor cursor) {
  const char* const begin = cursor.at();
  const char* last = begin;
  const char* after_newline = nullptr;
  while (cursor.IsSpace()) {
    const bool newline = cursor.Is(kNewlineClass);
    last = cursor.at();
    cursor.Advance();
    if (newline) after_newline = cursor.at();
  }
  if (after_newline != nullptr) return after_newline;
  return cursor.is_end() || last == begin ? cursor.at() : last;
}

const char* EndOfGpt2(const char* at, const char* end) {
  Cursor cursor(at, end);
  if (*at == '\'') {
    if (const char* const after = EndOfContraction(at, end, false); after != nullptr) return after;
  }
  const Cursor start = cursor;
  if (*at == ' ') {
    cursor.Advance();
    if (cursor.is_end() || cursor.IsSpace()) return EndOfSpace(start);
  } else if (cursor.IsSpace()) {
    return EndOfSpace(start);
  }
  cursor.Skip(cursor.Is(kLetterClass)   ? kLetterClass
              : cursor.Is(kNumberClass) ? kNumberClass
                                        : kOtherClass);
  return cursor.at();
}

template <int kDigits>
const char* EndOfLlama3(const char* at, const char* end) {
  Cursor cursor(at, end);
  if (*at == '\'') {
    if (const char* const after = EndOfContraction(at, end, true); after != nullptr) return after;
  }
  const Cursor start = cursor;
  if (cursor.Is(kNumberClass)) {
    for (int i = 0; i < kDigits && cursor.Is(kNumberClass); ++i) cursor.Advance();
    return cursor.at();
  }
  if (cursor.Is(kOtherClass) || cursor.Is(kSpaceClass)) {
    cursor.Advance();  // one of these may stand before letters
    if (!cursor.Is(kLetterClass)) {
      const bool space = start.Is(kSpaceClass);
      if (space && !(*at == ' ' && cursor.Is(kOtherClass))) return EndOfSpaceOrLines(start);
      cursor.Skip(kOtherClass);
      cursor.Skip(kNewlineClass);
      return cursor.at();
    }
  } else if (cursor.Is(kNewlineClass)) {
    return EndOfSpaceOrLines(start);
  }
  cursor.Skip(kLetterClass);
  return cursor.at();
}

}  // namespace

std::string_view RegexOf(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return kGpt2Regex;
    case KnownPattern::kLlama3:
      return kLlama3Regex;
    case KnownPattern::kQwen2:
      break;
  }
  return kQwen2Regex;
}

std::optional<KnownPattern> KnownPatternOf(std::string_view regex) {
  for (const KnownPattern p : {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2}) {
    if (regex == RegexOf(p)) return p;
  }
  return std::nullopt;
}

const char* EndOfMatch(KnownPattern pattern, const char* at, const char* end) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return EndOfGpt2(at, end);
    case KnownPattern::kLlama3:
      return EndOfLlama3<3>(at, end);
    case KnownPattern::kQwen2:
      break;
  }
  return EndOfLlama3<1>(at, end);
}

}  // namespace strata::data
