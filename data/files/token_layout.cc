#include "data/files/token_layout.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

// What llmq's own tool leaves in the words that it does not write: a line of asterisks.
constexpr int32_t kFiller = 0x2a2a2a2a;

int32_t WordOf(absl::Span<const unsigned char> header, size_t index) {
  int32_t word;
  std::memcpy(&word, header.data() + 4 * index, sizeof(word));
  return word;
}

absl::Status CheckWhole(absl::Span<const unsigned char> header, const char* kind) {
  if (static_cast<int64_t>(header.size()) >= kHeaderBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its header is cut short: ", header.size(),
                                                 " bytes, that of an ", kind, " file has ",
                                                 kHeaderBytes, " — make the file again"));
}

// `expected`: where the last thing that the header speaks of ends.
absl::Status CheckSize(int64_t tokens, int64_t expected, int64_t file_bytes) {
  if (tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header says ", tokens, " tokens — make the file again"));
  }
  if (tokens == 0) return absl::InvalidArgumentError("holds no tokens");
  if (expected == file_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "its header says ", tokens, " tokens, which is a file of ", expected, " bytes, but it has ",
      file_bytes,
      expected > file_bytes ? ": it is cut short — copy or make it again"
                            : ": something follows the tokens — copy or make it again"));
}

}  // namespace

int64_t BytesOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kU16:
    case TokenType::kI16:
      return 2;
    case TokenType::kU32:
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  return 8;
}

TokenFileKind KindByMagic(absl::Span<const unsigned char> start) {
  const auto begins_with = [&](const void* magic, size_t length) {
    return start.size() >= length && std::memcmp(start.data(), magic, length) == 0;
  };
  if (begins_with("BIN.TOK\n", 8)) return TokenFileKind::kLlmq;
  if (begins_with("MMIDIDX\0\0", 9)) return TokenFileKind::kMegatronIndex;
  for (const uint32_t magic : {kLlmcMagicU16, kLlmcMagicChoices, kLlmcMagicU32}) {
    if (begins_with(&magic, sizeof(magic))) return TokenFileKind::kLlmc;
  }
  return TokenFileKind::kNone;
}

absl::StatusOr<TokenLayout> ParseLlmqHeader(absl::Span<const unsigned char> header,
                                            int64_t file_bytes) {
  RETURN_IF_ERROR(CheckWhole(header, "llmq"));
  const int32_t version = WordOf(header, 2), bytes = WordOf(header, 3);
  if (version != 1 && version != 2) {
    return absl::UnimplementedError(
        absl::StrCat("is an llmq file of version ", version, " — only versions 1 and 2 are read"));
  }
  if (bytes != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header says ", bytes, " bytes per token, llmq's have 4 — make it again"));
  }
  TokenLayout layout;
  layout.type = TokenType::kI32;
  layout.first_byte = kHeaderBytes;
  layout.tokens = WordOf(header, 4);
  int64_t end = kHeaderBytes + 4 * layout.tokens;
  if (version == 2) {
    const int32_t vocabulary = WordOf(header, 5), masked = WordOf(header, 6);
    if (vocabulary < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("its header says a vocabulary of ", vocabulary, " — make the file again"));
    }
    if (masked != 0 && masked != 1 && masked != kFiller) {
      return absl::InvalidArgumentError(absl::StrCat(
          "word 6 of its header, 1 where there is a mask, is ", masked, " — make the file again"));
    }
    layout.vocabulary = vocabulary;
    if (masked == 1) {
      layout.mask_byte = end;
      end += (layout.tokens + 7) / 8;
    }
  }
  RETURN_IF_ERROR(CheckSize(layout.tokens, end, file_bytes));
  return layout;
}

absl::StatusOr<TokenLayout> ParseLlmcHeader(absl::Span<const unsigned char> header,
                                            int64_t file_bytes) {
  RETURN_IF_ERROR(CheckWhole(header, "llm.c"));
  const auto magic = static_cast<uint32_t>(WordOf(header, 0));
  if (magic == kLlmcMagicChoices) {
    return absl::UnimplementedError(
        "is an llm.c evaluation file: questions with several answers to choose from, not a text "
        "to train on or to measure a loss on — name a file of tokens");
  }
  const bool wide = magic == kLlmcMagicU32;
  const int32_t version = WordOf(header, 1), expected = wide ? 7 : 1;
  if (version != expected) {
    return absl::UnimplementedError(absl::StrCat("is an llm.c file of version ", version,
                                                 " — only version ", expected, " is read"));
  }
  TokenLayout layout;
  layout.type = wide ? TokenType::kU32 : TokenType::kU16;
  layout.first_byte = kHeaderBytes;
  layout.tokens = WordOf(header, 2);
  RETURN_IF_ERROR(
      CheckSize(layout.tokens, kHeaderBytes + BytesOf(layout.type) * layout.tokens, file_bytes));
  return layout;
}

absl::StatusOr<TokenLayout> RawLayout(int64_t file_bytes) {
  if (file_bytes % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has no header that tells its kind, so its tokens should be 16-bit numbers, but ",
        file_bytes,
        " bytes are no whole number of them — name a text otherwise than .bin, copy a cut file "
        "again"));
  }
  TokenLayout layout;
  layout.type = TokenType::kU16;
  layout.tokens = file_bytes / 2;
  return layout;
}

}  // namespace strata::data
