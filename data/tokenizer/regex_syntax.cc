#include "data/tokenizer/regex_syntax.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

// Groups nest as deep, and sets in sets.
constexpr int kDeepest = 50;

struct Property {
  const char* name;  // short and long, upper case without '_'
  const char* long_name;
  CategorySet set;
};
// Properties whose meaning is a set of assigned characters.
const Property kProperties[] = {
    {"L", "LETTER", kLetters},
    {"LU", "UPPERCASELETTER", SetOf({kLu})},
    {"LL", "LOWERCASELETTER", SetOf({kLl})},
    {"LT", "TITLECASELETTER", SetOf({kLt})},
    {"LM", "MODIFIERLETTER", SetOf({kLm})},
    {"LO", "OTHERLETTER", SetOf({kLo})},
    {"M", "MARK", kMarks},
    {"MN", "NONSPACINGMARK", SetOf({kMn})},
    {"MC", "SPACINGMARK", SetOf({kMc})},
    {"ME", "ENCLOSINGMARK", SetOf({kMe})},
    {"N", "NUMBER", kNumbers},
    {"ND", "DECIMALNUMBER", SetOf({kNd})},
    {"NL", "LETTERNUMBER", SetOf({kNl})},
    {"NO", "OTHERNUMBER", SetOf({kNo})},
    {"P", "PUNCTUATION", kPunctuation},
    {"PC", "CONNECTORPUNCTUATION", SetOf({kPc})},
    {"PD", "DASHPUNCTUATION", SetOf({kPd})},
    {"PS", "OPENPUNCTUATION", SetOf({kPs})},
    {"PE", "CLOSEPUNCTUATION", SetOf({kPe})},
    {"PI", "INITIALPUNCTUATION", SetOf({kPi})},
    {"PF", "FINALPUNCTUATION", SetOf({kPf})},
    {"PO", "OTHERPUNCTUATION", SetOf({kPo})},
    {"S", "SYMBOL", kSymbols},
    {"SM", "MATHSYMBOL", SetOf({kSm})},
    {"SC", "CURRENCYSYMBOL", SetOf({kSc})},
    {"SK", "MODIFIERSYMBOL", SetOf({kSk})},
    {"SO", "OTHERSYMBOL", SetOf({kSo})},
    {"Z", "SEPARATOR", kSeparators},
    {"ZS", "SPACESEPARATOR", SetOf({kZs})},
    {"ZL", "LINESEPARATOR", SetOf({kZl})},
    {"ZP", "PARAGRAPHSEPARATOR", SetOf({kZp})},
};

std::string RangesText(const std::vector<CharacterRange>& ranges) {
  std::string text;
  for (const CharacterRange& range : ranges) {
    absl::StrAppendFormat(&text, "\\x{%X}", static_cast<uint32_t>(range.first));
    if (range.last > range.first) {
      absl::StrAppendFormat(&text, "-\\x{%X}", static_cast<uint32_t>(range.last));
    }
  }
  return text;
}

std::string WhiteSpaceText() { return RangesText(std::vector(kWhiteSpaceRanges)); }

// All characters but white space, as ranges.
std::string NoWhiteSpaceText() {
  std::vector<CharacterRange> ranges;
  char32_t next = 0;
  for (const CharacterRange& range : kWhiteSpaceRanges) {
    if (next < range.first) ranges.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  ranges.push_back({next, kLastCharacter});
  return RangesText(ranges);
}

// The items of a set that stand for the property, in PCRE2's syntax.
std::string PropertyText(const Property& property) {
  // The one set that has lost a character since Unicode 14.
  if (property.set == SetOf({kMn})) return RangesText(AllOf(property.set));
  std::string name(property.name);
  if (name.size() == 2) name[1] = absl::ascii_tolower(name[1]);
  return absl::StrCat("\\p{", name, "}", RangesText(CategoriesSince14(property.set)));
}

std::string WordText(bool in_set) {
  std::string text = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";
  text +=
      RangesText({{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
  // Outside of sets Oniguruma looks Latin-1 up in a table where ², ³, ¹, ¼, ½ and ¾ are word too.
  if (!in_set) text += RangesText({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}});
  return text + RangesText(CategoriesSince14(kLetters | kMarks | SetOf({kNd, kNl, kPc})));
}

std::string DecimalText() { return PropertyText({"ND", "", SetOf({kNd})}); }

// What an escape or an item of a set stands for: a character, or a class of them.
struct Item {
  std::optional<char32_t> code;
  std::string class_text;  // items of a set
  bool negated = false;    // the class means all others
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::string> Run() {
    if (Take("(?i)")) {
      out_ += "(?i)";
      ignore_case_ = true;
    }
    RETURN_IF_ERROR(Alternatives(0));
    if (!rest_.empty()) return Malformed("a ) without its (");
    return out_;
  }

 private:
  static absl::Status Malformed(const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("malformed regular expression: ", what));
  }
  static absl::Status Unsupported(const std::string& what) {
    return absl::UnimplementedError(
        absl::StrCat("regular expression with ", what, ", which is not supported"));
  }

  bool Take(std::string_view prefix) {
    if (rest_.substr(0, prefix.size()) != prefix) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }
  bool Next(char c) const { return !rest_.empty() && rest_[0] == c; }
  char32_t TakeCharacter() {
    const Character c = DecodeAt(rest_.data());
    rest_.remove_prefix(c.size);
    return c.code;
  }

  absl::Status Alternatives(int depth) {
    if (depth > kDeepest) return Unsupported("groups nested too deep");
    previous_letter_ = 0;
    while (!rest_.empty() && !Next(')')) {
      if (Take("|")) {
        out_ += '|';
        previous_letter_ = 0;
        continue;
      }
      RETURN_IF_ERROR(Atom(depth));
      RETURN_IF_ERROR(Quantifier());
    }
    return absl::OkStatus();
  }

  absl::Status Atom(int depth) {
    if (Take("(")) return Group(depth);
    if (Take("[")) {
      previous_letter_ = 0;
      ASSIGN_OR_RETURN(const std::string set, Set(depth));
      out_ += set;
      return absl::OkStatus();
    }
    if (Take(".")) {
      previous_letter_ = 0;
      out_ += "[^\\n]";
      return absl::OkStatus();
    }
    if (Take("\\")) {
      ASSIGN_OR_RETURN(const Item item, Escape(false));
      if (item.code.has_value()) return Literal(*item.code);
      previous_letter_ = 0;
      absl::StrAppend(&out_, item.negated ? "[^" : "[", item.class_text, "]");
      return absl::OkStatus();
    }
    const char c = rest_[0];
    if (c == '^' || c == '$') return Unsupported(absl::StrCat("the anchor ", std::string(1, c)));
    if (c == '*' || c == '+' || c == '?') return Malformed("a quantifier of nothing");
    if (c == '{' || c == '}' || c == ']') {
      return Unsupported(absl::StrCat("a bare ", std::string(1, c)));
    }
    return Literal(TakeCharacter());
  }

  absl::Status Literal(char32_t code) {
    RETURN_IF_ERROR(CheckCase(code));
    // Oniguruma lets one character match two letters (as ß for ss); PCRE2 does not.
    const char32_t letter = code < 0x80 ? absl::ascii_tolower(static_cast<char>(code)) : code;
    const std::string pair = {static_cast<char>(previous_letter_), static_cast<char>(letter)};
    if (ignore_case_ && code < 0x80 &&
        (pair == "ss" || pair == "st" || pair == "ff" || pair == "fi" || pair == "fl")) {
      return Unsupported(absl::StrCat("\"", pair, "\" where case is ignored"));
    }
    previous_letter_ = letter < 0x80 ? letter : 0;
    out_ += RangesText({{code, code}});
    return absl::OkStatus();
  }

  absl::Status CheckCase(char32_t code) const {
    if (!ignore_case_ || code < 0x80) return absl::OkStatus();
    return Unsupported("a character beyond ASCII where case is ignored");
  }

  absl::Status Group(int depth) {
    const bool outer_case = ignore_case_;
    if (Take("?")) {
      bool known = false;
      for (const char* kind : {"i:", ":", "=", "!", ">", "<=", "<!"}) {
        if (!Take(kind)) continue;
        known = true;
        absl::StrAppend(&out_, "(?", kind);
        ignore_case_ = ignore_case_ || kind[0] == 'i';
        break;
      }
      if (!known) {
        return Unsupported(absl::StrCat("the group (?", std::string(rest_.substr(0, 2)), "…"));
      }
    } else {
      out_ += "(?:";
    }
    RETURN_IF_ERROR(Alternatives(depth + 1));
    if (!Take(")")) return Malformed("a ( without its )");
    out_ += ')';
    ignore_case_ = outer_case;
    previous_letter_ = 0;
    return absl::OkStatus();
  }

  absl::Status Quantifier() {
    bool interval = false, exact = false;
    if (Next('*') || Next('+') || Next('?')) {
      out_ += rest_[0];
      rest_.remove_prefix(1);
    } else if (Next('{')) {
      interval = true;
      ASSIGN_OR_RETURN(exact, Interval());
    } else {
      return absl::OkStatus();
    }
    previous_letter_ = 0;
    if (Next('?') && exact) return Unsupported("{n}?");
    if (Next('+') && interval) return Unsupported("an interval followed by +");
    if (Next('?') || Next('+')) {
      out_ += rest_[0];
      rest_.remove_prefix(1);
    }
    if (Next('*') || Next('+') || Next('?') || Next('{')) {
      return Unsupported("a quantifier of a quantifier");
    }
    return absl::OkStatus();
  }

  // {n}, {n,}, {n,m} or {,m}; whether it is the first.
  absl::StatusOr<bool> Interval() {
    const size_t end = rest_.find('}');
    const std::string text(rest_.substr(1, end == std::string_view::npos ? end : end - 1));
    const size_t comma = text.find(',');
    const std::string least = text.substr(0, comma);
    const std::string most = comma == std::string::npos ? "" : text.substr(comma + 1);
    const auto is_number = [](const std::string& digits) {
      return digits.size() <= 4 && std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
    };
    const bool some = !least.empty() || !most.empty();
    if (end == std::string_view::npos || !is_number(least) || !is_number(most) || !some) {
      return Unsupported("a { that begins no interval");
    }
    rest_.remove_prefix(end + 1);
    absl::StrAppend(&out_, "{", least.empty() ? "0" : least);
    if (comma != std::string::npos) absl::StrAppend(&out_, ",", most);
    out_ += '}';
    return comma == std::string::npos;
  }

  // A set whose [ has been taken, as PCRE2's.
  absl::StatusOr<std::string> Set(int depth) {
    std::string items = Take("^") ? "[^" : "[";
    if (Next(']')) return Unsupported("a set that begins with ]");
    RETURN_IF_ERROR(SetItems(depth, &items));
    return items + "]";
  }

  absl::Status SetItems(int depth, std::string* items) {
    if (depth > kDeepest) return Unsupported("sets nested too deep");
    for (;;) {
      if (rest_.empty()) return Malformed("a [ without its ]");
      if (Take("]")) return absl::OkStatus();
      if (Take("&&")) return Unsupported("an intersection of sets");
      if (Take("[")) {
        if (Next(':')) return Unsupported("a [:class:]");
        if (Next('^') || Next(']')) return Unsupported("a negated set in a set");
        RETURN_IF_ERROR(SetItems(depth + 1, items));
        continue;
      }
      RETURN_IF_ERROR(SetItem(items));
    }
  }

  absl::Status SetItem(std::string* items) {
    ASSIGN_OR_RETURN(const Item first, OneOfSet());
    const bool range = Next('-') && rest_.size() > 1 && rest_[1] != ']';
    if (!first.code.has_value()) {
      if (range) return Unsupported("a range that begins with a class");
      if (first.negated) return Unsupported("a negated class in a set");
      *items += first.class_text;
      return absl::OkStatus();
    }
    CharacterRange characters = {*first.code, *first.code};
    if (range) {
      rest_.remove_prefix(1);
      if (Next('[')) return Unsupported("a range that ends with a set");
      ASSIGN_OR_RETURN(const Item last, OneOfSet());
      if (!last.code.has_value()) return Unsupported("a range that ends with a class");
      if (*last.code < *first.code) return Malformed("a range that ends before it begins");
      characters.last = *last.code;
    }
    RETURN_IF_ERROR(CheckCase(characters.last));
    *items += RangesText({characters});
    return absl::OkStatus();
  }

  absl::StatusOr<Item> OneOfSet() {
    if (Take("\\")) return Escape(true);
    if (rest_.empty()) return Malformed("a [ without its ]");
    return Item{TakeCharacter(), "", false};
  }

  // What follows a backslash, in a set or outside of one.
  absl::StatusOr<Item> Escape(bool in_set) {
    if (rest_.empty()) return Malformed("a backslash at the end");
    const char32_t c = TakeCharacter();
    switch (c) {
      case 'n':
        return Item{U'\n', "", false};
      case 'r':
        return Item{U'\r', "", false};
      case 't':
        return Item{U'\t', "", false};
      case 'f':
        return Item{U'\f', "", false};
      case 'v':
        return Item{U'\v', "", false};
      case 'x':
      case 'u':
        return HexCharacter(c == 'u');
      case 's':
        return Item{std::nullopt, WhiteSpaceText(), false};
      case 'S':
        return Item{std::nullopt, NoWhiteSpaceText(), false};
      case 'd':
      case 'D':
        return Item{std::nullopt, DecimalText(), c == 'D'};
      case 'w':
      case 'W':
        return Item{std::nullopt, WordText(in_set), c == 'W'};
      case 'p':
      case 'P':
        return NamedProperty(c == 'P');
      default:
        break;
    }
    if (c >= 0x80 || !absl::ascii_ispunct(static_cast<char>(c))) {
      if (c != ' ') return Unsupported(absl::StrCat("\\", Utf8(c)));
    }
    return Item{c, "", false};
  }

  // \xHH, \x{H…} or \uHHHH.
  absl::StatusOr<Item> HexCharacter(bool four) {
    std::string digits;
    if (!four && Take("{")) {
      const size_t end = rest_.find('}');
      if (end == std::string_view::npos) return Malformed("\\x{ without its }");
      digits = std::string(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
    } else {
      digits = std::string(rest_.substr(0, four ? 4 : 2));
      if (digits.size() < (four ? 4 : 2)) return Malformed("too few digits after \\x or \\u");
      rest_.remove_prefix(digits.size());
      if (!four && digits[0] >= '8') return Unsupported("\\x of a byte beyond 7F");
    }
    if (digits.empty() || digits.size() > 6 ||
        !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
      return Malformed(absl::StrCat("\"", digits, "\" is no hexadecimal number of a character"));
    }
    const auto code = static_cast<char32_t>(std::stoul(digits, nullptr, 16));
    if (code > kLastCharacter || (code >= 0xD800 && code <= 0xDFFF)) {
      return Malformed(absl::StrCat(digits, " is no character"));
    }
    return Item{code, "", false};
  }

  // {Name} or {^Name} after \p or \P.
  absl::StatusOr<Item> NamedProperty(bool negated) {
    if (!Take("{")) return Unsupported("\\p without {name}");
    if (Take("^")) negated = !negated;
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos) return Malformed("\\p{ without its }");
    const std::string written(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    std::string name;
    for (const char c : written) {
      if (c != ' ' && c != '_' && c != '-') name += absl::ascii_toupper(c);
    }
    for (const Property& property : kProperties) {
      if (name == property.name || name == property.long_name) {
        return Item{std::nullopt, PropertyText(property), negated};
      }
    }
    return Unsupported(absl::StrCat("the property \\p{", written, "}"));
  }

  std::string_view rest_;
  std::string out_;
  bool ignore_case_ = false;
  char32_t previous_letter_ = 0;  // the literal before, in lower case; 0: something else
};

}  // namespace

absl::StatusOr<std::string> TranslateRegex(std::string_view pattern) {
  if (FindInvalidUtf8(pattern) != std::string_view::npos) {
    return absl::InvalidArgumentError("malformed regular expression: not UTF-8");
  }
  return Translator(pattern).Run();
}

}  // namespace strata::data
