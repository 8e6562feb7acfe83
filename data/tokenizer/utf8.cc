#include "data/tokenizer/utf8.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace strata::data {

void AppendUtf8(char32_t code, std::string* text) {
  const auto put = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string Utf8(char32_t code) {
  std::string text;
  AppendUtf8(code, &text);
  return text;
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

Sequence ScanSequence(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return {Sequence::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Sequence::kInvalid, 1};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Only the second byte has narrower ranges: no overlong forms, surrogates or codes past 10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i == bytes.size()) return {Sequence::kTruncated, i};
    const bool good = i == 1 ? at(i) >= low && at(i) <= high : (at(i) & 0xC0) == 0x80;
    if (!good) return {Sequence::kInvalid, i};
  }
  return {Sequence::kCharacter, size};
}

size_t FindInvalidUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t eight;
    while (i + sizeof(eight) <= bytes.size()) {
      std::memcpy(&eight, bytes.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) != 0) break;
      i += sizeof(eight);
    }
    while (i < bytes.size()) {
      const Sequence sequence = ScanSequence(bytes.substr(i, 4));
      if (sequence.kind != Sequence::kCharacter) return i;
      i += sequence.size;
      if (sequence.size == 1) break;
    }
  }
  return std::string_view::npos;
}

void AppendLossy(std::string_view bytes, std::string* text) {
  while (!bytes.empty()) {
    const size_t good = std::min(FindInvalidUtf8(bytes), bytes.size());
    text->append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    AppendUtf8(kReplacementCharacter, text);
    bytes.remove_prefix(ScanSequence(bytes.substr(0, 4)).size);
  }
}

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(std::string(text.substr(0, 100))), "\"");
}

}  // namespace strata::data
