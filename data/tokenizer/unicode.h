// Properties of characters and normal forms, in the versions of Unicode that the `tokenizers`
// library has: text must be cut as it was when the models were trained.
#ifndef STRATA_DATA_TOKENIZER_UNICODE_H_
#define STRATA_DATA_TOKENIZER_UNICODE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/utf8.h"

namespace strata::data {

// General categories, in the order of utf8proc's enumeration.
enum Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kCategories,
};

// A set of categories: bit i is category i.
using CategorySet = uint32_t;
constexpr CategorySet SetOf(std::initializer_list<Category> categories) {
  CategorySet set = 0;
  for (const Category category : categories) set |= CategorySet{1} << category;
  return set;
}
constexpr CategorySet kLetters = SetOf({kLu, kLl, kLt, kLm, kLo});
constexpr CategorySet kMarks = SetOf({kMn, kMc, kMe});
constexpr CategorySet kNumbers = SetOf({kNd, kNl, kNo});
constexpr CategorySet kPunctuation = SetOf({kPc, kPd, kPs, kPe, kPi, kPf, kPo});
constexpr CategorySet kSymbols = SetOf({kSm, kSc, kSk, kSo});
constexpr CategorySet kSeparators = SetOf({kZs, kZl, kZp});

Category CategoryOf(char32_t code);
inline bool IsOf(char32_t code, CategorySet set) { return ((set >> CategoryOf(code)) & 1) != 0; }

// White_Space, the meaning of \s.
bool IsWhiteSpace(char32_t code);
// \w: Alphabetic, marks, decimal digits, connectors and joiners.
bool IsWordCharacter(char32_t code);
// As the pre-tokenizers Digits and Punctuation have them.
bool IsNumeric(char32_t code);
bool IsPunctuation(char32_t code);

struct CharacterRange {
  char32_t first;
  char32_t last;
};
// All of White_Space, ascending.
extern const std::initializer_list<CharacterRange> kWhiteSpaceRanges;
// Ranges of `set` that are not of it in Unicode 14 (PCRE2 10.42).
std::vector<CharacterRange> CategoriesSince14(CategorySet set);
// All ranges of `set`.
std::vector<CharacterRange> AllOf(CategorySet set);

// What the known splitting patterns tell apart.
enum SplitClass : uint8_t { kOtherClass, kLetterClass, kNumberClass, kSpaceClass, kNewlineClass };
// By code point, kLastCharacter + 1 entries; kNewlineClass are \r and \n.
const SplitClass* SplitClasses();

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// Whether `text` (UTF-8) is certainly in that form. False where only a conversion would tell.
bool IsNormalized(std::string_view text, NormalForm form);
// Appends `text` (UTF-8) in that form. Linear in its length but for sorting runs of marks.
void AppendNormalized(std::string_view text, NormalForm form, std::string* out);
// Appends `text` (UTF-8) with each character in lower case on its own (no final sigma).
void AppendLowercase(std::string_view text, std::string* out);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_UNICODE_H_
