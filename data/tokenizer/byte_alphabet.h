// The printable characters that byte-level tokenizers write bytes as: ! to ~, ¡ to ¬ and ® to ÿ
// stand for themselves, the other 68 bytes in ascending order for U+0100 and on.
#ifndef STRATA_DATA_TOKENIZER_BYTE_ALPHABET_H_
#define STRATA_DATA_TOKENIZER_BYTE_ALPHABET_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/utf8.h"

namespace strata::data {

constexpr char32_t kByteCharacters = 0x144;  // all are below

inline const std::array<char32_t, 256>& CharactersOfBytes() {
  static const std::array<char32_t, 256> table = [] {
    std::array<char32_t, 256> characters;
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      characters[byte] = itself ? byte : next++;
    }
    return characters;
  }();
  return table;
}

// The byte that a character stands for; -1: none.
inline int ByteOfCharacter(char32_t code) {
  static const std::array<int16_t, kByteCharacters> table = [] {
    std::array<int16_t, kByteCharacters> bytes;
    bytes.fill(-1);
    for (int16_t byte = 0; byte < 256; ++byte) {
      bytes[CharactersOfBytes()[static_cast<size_t>(byte)]] = byte;
    }
    return bytes;
  }();
  return code < kByteCharacters ? table[code] : -1;
}

inline void AppendByteCharacters(std::string_view bytes, std::string* text) {
  const std::array<char32_t, 256>& characters = CharactersOfBytes();
  for (const char byte : bytes) AppendUtf8(characters[static_cast<unsigned char>(byte)], text);
}

// Appends the bytes that UTF-8 text of these characters stands for; a text with any other character
// stands for itself.
inline void AppendBytesOf(std::string_view text, std::string* bytes) {
  const size_t before = bytes->size();
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const Character c = DecodeAt(at);
    const int byte = ByteOfCharacter(c.code);
    if (byte < 0) {
      bytes->resize(before);
      bytes->append(text);
      return;
    }
    bytes->push_back(static_cast<char>(byte));
    at += c.size;
  }
}

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_BYTE_ALPHABET_H_
