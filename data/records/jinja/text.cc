#include "data/records/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/tokenizer/utf8.h"

namespace strata::data::jinja {
namespace {

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// The letter of a JSON escape such as \n; 0: the character has none.
char ShortEscape(char32_t c) {
  switch (c) {
    case '"':
    case '\\':
      return static_cast<char>(c);
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return 0;
  }
}

std::vector<std::string_view> SplitAtSpaces(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = Strip(text, std::nullopt, true, false);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text);  // the rest keeps its trailing white space
      break;
    }
    size_t end = 0, length = 0;
    while (end < text.size() && !IsSpace(CharacterAt(text, end, &length))) end += length;
    parts.push_back(text.substr(0, end));
    text = Strip(text.substr(end), std::nullopt, true, false);
  }
  return parts;
}

std::vector<std::string_view> SplitAtSpacesFromRight(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = Strip(text, std::nullopt, false, true);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size(), length = 0;
    while (begin > 0) {
      const size_t before = begin - DecodeBefore(text.data(), text.data() + begin).size;
      if (IsSpace(CharacterAt(text, before, &length))) break;
      begin = before;
    }
    parts.push_back(text.substr(begin));
    text = Strip(text.substr(0, begin), std::nullopt, false, true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

char32_t CharacterAt(std::string_view text, size_t at, size_t* length) {
  const Character character = DecodeAt(text.data() + at);
  *length = character.size;
  return character.code;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    CharacterAt(text, at, &length);
    all.push_back(text.substr(at, length));
  }
  return all;
}

std::string_view Excerpt(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && IsContinuation(text[most])) --most;
  return text.substr(0, most);
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsPrintable(char32_t character) {
  if (character < 0x7F) return character >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

std::string_view Strip(std::string_view text, std::optional<std::string_view> characters, bool left,
                       bool right) {
  const auto stripped = [&](size_t at, size_t* length) {
    const char32_t character = CharacterAt(text, at, length);
    if (!characters) return IsSpace(character);
    return characters->find(text.substr(at, *length)) != std::string_view::npos;
  };
  size_t length = 0;
  while (left && !text.empty() && stripped(0, &length)) text.remove_prefix(length);
  while (right && !text.empty()) {
    const size_t last = text.size() - DecodeBefore(text.data(), text.data() + text.size()).size;
    if (!stripped(last, &length)) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t limit,
                                    bool from_right) {
  if (!separator) {
    return from_right ? SplitAtSpacesFromRight(text, limit) : SplitAtSpaces(text, limit);
  }
  std::vector<std::string_view> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == std::string_view::npos) break;
    const std::string_view before = text.substr(0, at), after = text.substr(at + separator->size());
    parts.push_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0, length = 0; at < text.size();) {
    const bool ends = IsLineEnd(CharacterAt(text, at, &length));
    const size_t end = at;
    at += length;
    if (!ends) continue;
    if (text[end] == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::optional<std::string> Replace(std::string_view text, std::string_view from,
                                   std::string_view to, int64_t limit, int64_t most) {
  std::string out;
  size_t at = 0;
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    size_t found = from.empty() ? at : text.find(from, at);
    if (found == std::string_view::npos) break;
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
    if (static_cast<int64_t>(out.size()) > most) return std::nullopt;
    if (!from.empty()) continue;
    if (at == text.size()) return out;
    size_t length = 0;
    CharacterAt(text, at, &length);
    out.append(text.substr(at, length));
    at += length;
  }
  out.append(text.substr(at));
  if (static_cast<int64_t>(out.size()) > most) return std::nullopt;
  return out;
}

absl::StatusOr<std::string> ToCase(std::string_view text, Case to) {
  std::string out(text);
  bool begins = true;  // a word
  for (char& c : out) {
    if (static_cast<uint8_t>(c) >= 0x80) {
      return absl::InvalidArgumentError(
          "the case of text beyond ASCII is not supported: it depends on the language");
    }
    const bool upper = to == Case::kUpper || (begins && to != Case::kLower);
    begins = to == Case::kTitle && !absl::ascii_isalpha(static_cast<uint8_t>(c));
    c = upper ? absl::ascii_toupper(static_cast<uint8_t>(c))
              : absl::ascii_tolower(static_cast<uint8_t>(c));
  }
  return out;
}

std::string Quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = CharacterAt(text, at, &length);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (IsPrintable(c)) {
      out.append(text.substr(at, length));
    } else if (c < 0x100) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint32_t>(c));
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", static_cast<uint32_t>(c));
    }
  }
  out.push_back(quote);
  return out;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number, laid out as Python does.
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view shortest(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* const digits_begin = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_begin, shortest.data() + shortest.size(), exponent);
  std::string sign, digits;
  for (const char c : shortest.substr(0, e)) {
    if (c == '-') sign = "-";
    if (absl::ascii_isdigit(static_cast<uint8_t>(c))) digits.push_back(c);
  }
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return absl::StrCat(sign, mantissa, exponent < 0 ? "e-" : "e+",
                        absl::StrFormat("%02d", std::abs(exponent)));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void AppendJsonString(std::string_view text, bool ascii, std::string* out) {
  out->push_back('"');
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = CharacterAt(text, at, &length);
    if (const char named = ShortEscape(c); named != 0) {
      out->push_back('\\');
      out->push_back(named);
    } else if (c < 0x20 || (ascii && c > 0x7F && c < 0x10000)) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<uint32_t>(c));
    } else if (ascii && c >= 0x10000) {
      const uint32_t rest = c - 0x10000;
      absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xD800u + (rest >> 10),
                            0xDC00u + (rest & 0x3FFu));
    } else {
      out->append(text.substr(at, length));
    }
  }
  out->push_back('"');
}

}  // namespace strata::data::jinja
