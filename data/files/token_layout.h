// Where and how the tokens of a file lie, as its header tells it; integers are little-endian.
#ifndef STRATA_DATA_FILES_TOKEN_LAYOUT_H_
#define STRATA_DATA_FILES_TOKEN_LAYOUT_H_

#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::data {

static_assert(std::endian::native == std::endian::little, "token files are copied, not converted");

enum class TokenType { kU8, kI8, kU16, kI16, kU32, kI32, kI64 };

int64_t BytesOf(TokenType type);

struct TokenLayout {
  TokenType type = TokenType::kU8;
  int64_t first_byte = 0;  // of token 0
  int64_t tokens = 0;
  int64_t vocabulary = 0;  // what the header says; 0: nothing
  int64_t mask_byte = -1;  // of the mask's first byte; -1: none, every token is a target
};

// What the first bytes of a file say.
enum class TokenFileKind { kLlmq, kLlmc, kMegatronIndex, kNone };
inline constexpr int64_t kMagicBytes = 9;
TokenFileKind KindByMagic(absl::Span<const unsigned char> start);

// Both formats begin with 256 32-bit words.
inline constexpr int64_t kHeaderBytes = 1024;

// llmq, versions 1 and 2: "BIN.TOK\n", version, 4 bytes per token, tokens, vocabulary (version 2),
// 1 where a mask follows the tokens (version 2): a bit per token, lowest first; set: a target.
// llm.c: 20240520, 1, tokens: 16-bit tokens (GPT-2); 20240801, 7, tokens: 32-bit ones (Llama 3).
//
// `header`: the file's first kHeaderBytes, fewer where it is shorter; its magic is right.
// InvalidArgument, Unimplemented: why the header is wrong or does not fit the file's size, without
// the path.
absl::StatusOr<TokenLayout> ParseLlmqHeader(absl::Span<const unsigned char> header,
                                            int64_t file_bytes);
absl::StatusOr<TokenLayout> ParseLlmcHeader(absl::Span<const unsigned char> header,
                                            int64_t file_bytes);
// nanoGPT: 16-bit tokens and nothing else.
absl::StatusOr<TokenLayout> RawLayout(int64_t file_bytes);

inline constexpr uint32_t kLlmcMagicU16 = 20240520;
inline constexpr uint32_t kLlmcMagicChoices = 20240522;
inline constexpr uint32_t kLlmcMagicU32 = 20240801;

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_TOKEN_LAYOUT_H_
