// Reading and writing single characters of UTF-8.
#ifndef STRATA_DATA_TOKENIZER_UTF8_H_
#define STRATA_DATA_TOKENIZER_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::data {

constexpr char32_t kReplacementCharacter = 0xFFFD;
constexpr char32_t kLastCharacter = 0x10FFFF;

struct Character {
  char32_t code = 0;
  uint32_t size = 0;  // bytes
};

// The character that starts at `at`, in text known to be UTF-8.
inline Character DecodeAt(const char* at) {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xE0) return {((p[0] & 0x1Fu) << 6) | (p[1] & 0x3Fu), 2};
  if (p[0] < 0xF0) {
    return {((p[0] & 0x0Fu) << 12) | ((p[1] & 0x3Fu) << 6) | (p[2] & 0x3Fu), 3};
  }
  return {((p[0] & 0x07u) << 18) | ((p[1] & 0x3Fu) << 12) | ((p[2] & 0x3Fu) << 6) | (p[3] & 0x3Fu),
          4};
}

inline bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The character before `at` > `begin`, in text known to be UTF-8.
inline Character DecodeBefore(const char* begin, const char* at) {
  do --at;
  while (at > begin && IsContinuation(*at));
  return DecodeAt(at);
}

void AppendUtf8(char32_t code, std::string* text);
std::string Utf8(char32_t code);

// How many characters there are in UTF-8 text.
size_t CountCharacters(std::string_view text);

// What stands at the beginning of bytes (at least one).
struct Sequence {
  enum Kind {
    kCharacter,
    kTruncated,  // the beginning of a character, and the end of the bytes
    kInvalid,    // neither: its bytes are replaced by one U+FFFD
  };
  Kind kind = kInvalid;
  size_t size = 0;
};
Sequence ScanSequence(std::string_view bytes);

// Where the bytes stop being UTF-8; npos: nowhere.
size_t FindInvalidUtf8(std::string_view bytes);

// Appends bytes as UTF-8, invalid ones replaced by U+FFFD as Unicode recommends (one for each
// maximal part of a character).
void AppendLossy(std::string_view bytes, std::string* text);

// As errors show it: in quotes, its first 100 bytes, with escapes for what cannot be shown.
std::string Quoted(std::string_view text);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_UTF8_H_
