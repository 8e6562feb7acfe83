#include "data/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/container/inlined_vector.h"
#include "absl/strings/ascii.h"
#include "data/tokenizer/unicode_versions.h"

namespace strata::data {
namespace {

constexpr size_t kCodePoints = kLastCharacter + 1;

template <typename Ranges>
bool IsIn(char32_t code, const Ranges& ranges) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const CharacterRange& range) {
    return range.first <= code && code <= range.last;
  });
}

std::vector<uint8_t> MakeCategories() {
  std::vector<uint8_t> categories(kCodePoints);
  for (size_t code = 0; code < kCodePoints; ++code) {
    categories[code] = static_cast<uint8_t>(utf8proc_category(static_cast<int32_t>(code)));
  }
  for (const CategoryRange& range : kCategoriesSince14) {
    std::fill(categories.begin() + range.first, categories.begin() + range.last + 1,
              range.category);
  }
  return categories;
}

std::vector<SplitClass> MakeSplitClasses() {
  std::vector<SplitClass> classes(kCodePoints, kOtherClass);
  for (size_t code = 0; code < kCodePoints; ++code) {
    const auto c = static_cast<char32_t>(code);
    if (IsOf(c, kLetters)) classes[code] = kLetterClass;
    if (IsOf(c, kNumbers)) classes[code] = kNumberClass;
    if (IsWhiteSpace(c)) classes[code] = kSpaceClass;
  }
  classes['\r'] = classes['\n'] = kNewlineClass;
  return classes;
}

// ---- Normal forms

// How a character stands to a normal form.
enum Stability : uint8_t {
  kUnstable,  // may change, combine with what is before it, or move
  kStable,    // does neither, but what follows may combine with it
  kOpaque,    // the same, and nothing combines with it
};

bool Composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

utf8proc_option_t OptionsOf(NormalForm form) {
  int options = UTF8PROC_STABLE | (Composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

using CodePoints = absl::InlinedVector<int32_t, 32>;

// No character decomposes into more than 18 others; the library asks for more where that changes.
constexpr size_t kMostParts = 32;

// Appends the full decomposition of a character.
void Decompose(char32_t code, utf8proc_option_t options, CodePoints* points) {
  std::array<int32_t, kMostParts> parts;
  int boundary = 0;
  const auto decompose =
      static_cast<utf8proc_option_t>((options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<int32_t>(code), parts.data(),
                                                         kMostParts, decompose, &boundary);
  if (count < 0 || static_cast<size_t>(count) > kMostParts) {
    points->push_back(static_cast<int32_t>(code));
    return;
  }
  points->insert(points->end(), parts.begin(), parts.begin() + count);
}

int CombiningClass(int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Sorts each run of marks by combining class.
void Reorder(CodePoints* points) {
  const auto is_mark = [](int32_t code) { return CombiningClass(code) != 0; };
  for (auto begin = points->begin(); begin != points->end();) {
    begin = std::find_if(begin, points->end(), is_mark);
    const auto end = std::find_if_not(begin, points->end(), is_mark);
    std::stable_sort(begin, end,
                     [](int32_t a, int32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

void Compose(utf8proc_option_t options, CodePoints* points) {
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(
      points->data(), static_cast<utf8proc_ssize_t>(points->size()), options);
  points->resize(static_cast<size_t>(size));
}

// Beyond these no character has a decomposition or a combining class.
constexpr char32_t kFirstIndifferent = 0x32000;

std::vector<Stability> MakeStabilities(NormalForm form) {
  const utf8proc_option_t options = OptionsOf(form);
  std::vector<Stability> stabilities(kCodePoints, kStable);
  for (char32_t code = 0; code < kFirstIndifferent; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;  // surrogates are no characters of UTF-8
    CodePoints points;
    Decompose(code, options, &points);
    const int32_t last_part = points.back();
    const bool has_parts = points.size() > 1;
    if (Composes(form)) Compose(options, &points);
    const bool same = points.size() == 1 && points[0] == static_cast<int32_t>(code);
    if (!same || CombiningClass(static_cast<int32_t>(code)) != 0) stabilities[code] = kUnstable;
    // What composes to this character ends with a character that combines with what precedes it.
    if (Composes(form) && same && has_parts) stabilities[last_part] = kUnstable;
  }
  for (const CharacterRange& range : kUnknownToNormalForms) {
    std::fill(stabilities.begin() + range.first, stabilities.begin() + range.last + 1, kOpaque);
  }
  return stabilities;
}

const Stability* Stabilities(NormalForm form) {
  const auto table = [](NormalForm f) { return new std::vector<Stability>(MakeStabilities(f)); };
  switch (form) {
    case NormalForm::kNfc: {
      static const std::vector<Stability>& nfc = *table(NormalForm::kNfc);
      return nfc.data();
    }
    case NormalForm::kNfd: {
      static const std::vector<Stability>& nfd = *table(NormalForm::kNfd);
      return nfd.data();
    }
    case NormalForm::kNfkc: {
      static const std::vector<Stability>& nfkc = *table(NormalForm::kNfkc);
      return nfkc.data();
    }
    case NormalForm::kNfkd:
      break;
  }
  static const std::vector<Stability>& nfkd = *table(NormalForm::kNfkd);
  return nfkd.data();
}

// Converts a stretch that what surrounds it does not affect.
void AppendConverted(std::string_view text, NormalForm form, std::string* out) {
  const utf8proc_option_t options = OptionsOf(form);
  CodePoints points;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const Character c = DecodeAt(at);
    Decompose(c.code, options, &points);
    at += c.size;
  }
  Reorder(&points);
  if (Composes(form)) Compose(options, &points);
  for (const int32_t code : points) AppendUtf8(static_cast<char32_t>(code), out);
}

}  // namespace

const std::initializer_list<CharacterRange> kWhiteSpaceRanges = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

Category CategoryOf(char32_t code) {
  static const std::vector<uint8_t>& categories = *new std::vector<uint8_t>(MakeCategories());
  return static_cast<Category>(categories[code]);
}

bool IsWhiteSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x9 && code <= 0xD);
  return IsIn(code, kWhiteSpaceRanges);
}

bool IsWordCharacter(char32_t code) {
  // Other_Alphabetic consists of marks and of circled, squared and parenthesized letters.
  constexpr CharacterRange kAlphabeticSymbols[] = {
      {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  if (IsOf(code, kLetters | kMarks | SetOf({kNd, kNl, kPc}))) return true;
  if (code == 0x200C || code == 0x200D) return true;  // Join_Control
  return IsIn(code, kAlphabeticSymbols);
}

bool IsNumeric(char32_t code) { return IsOf(code, kNumbers) || IsIn(code, kMoreNumbers); }

bool IsPunctuation(char32_t code) {
  if (code < 0x80) return absl::ascii_ispunct(static_cast<unsigned char>(code));
  if (IsOf(code, kPunctuation)) return !IsIn(code, kNoPunctuation);
  return IsIn(code, kMorePunctuation);
}

std::vector<CharacterRange> CategoriesSince14(CategorySet set) {
  std::vector<CharacterRange> ranges;
  for (const CategoryRange& range : kCategoriesSince14) {
    if (((set >> range.category) & 1) != 0) ranges.push_back({range.first, range.last});
  }
  return ranges;
}

std::vector<CharacterRange> AllOf(CategorySet set) {
  std::vector<CharacterRange> ranges;
  for (char32_t code = 0; code <= kLastCharacter; ++code) {
    if (!IsOf(code, set)) continue;
    if (!ranges.empty() && ranges.back().last + 1 == code) {
      ranges.back().last = code;
    } else {
      ranges.push_back({code, code});
    }
  }
  return ranges;
}

const SplitClass* SplitClasses() {
  static const std::vector<SplitClass>& classes = *new std::vector<SplitClass>(MakeSplitClasses());
  return classes.data();
}

bool IsNormalized(std::string_view text, NormalForm form) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end && static_cast<unsigned char>(*at) < 0x80) ++at;
  if (at == end) return true;
  const Stability* const stabilities = Stabilities(form);
  while (at < end) {
    const Character c = DecodeAt(at);
    if (stabilities[c.code] == kUnstable) return false;
    at += c.size;
  }
  return true;
}

void AppendNormalized(std::string_view text, NormalForm form, std::string* out) {
  const Stability* const stabilities = Stabilities(form);
  const char* const end = text.data() + text.size();
  const char* copied = text.data();  // all before is in `out`
  const char* base = copied;         // where a stretch that ends at `at` would begin
  const char* at = copied;
  while (at < end) {
    const Character c = DecodeAt(at);
    const Stability stability = stabilities[c.code];
    if (stability != kUnstable) {
      base = stability == kOpaque ? at + c.size : at;
      at += c.size;
      continue;
    }
    for (; at < end; at += DecodeAt(at).size) {
      if (stabilities[DecodeAt(at).code] != kUnstable) break;
    }
    out->append(copied, base);
    AppendConverted({base, static_cast<size_t>(at - base)}, form, out);
    copied = base = at;
  }
  out->append(copied, end);
}

void AppendLowercase(std::string_view text, std::string* out) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the only one whose lower case is two characters
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const Character c = DecodeAt(at);
    at += c.size;
    const auto code = static_cast<int32_t>(c.code);
    if (c.code == kCapitalIWithDot) {
      out->append("i\xCC\x87");
      continue;
    }
    const auto since = std::find_if(
        std::begin(kLowerCasesSince15), std::end(kLowerCasesSince15),
        [&](const CaseRange& range) { return range.first <= c.code && c.code <= range.last; });
    const int32_t lower =
        since == std::end(kLowerCasesSince15) ? utf8proc_tolower(code) : code + since->distance;
    AppendUtf8(static_cast<char32_t>(lower), out);
  }
}

}  // namespace strata::data
