#include "data/files/stored_tokens.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "data/files/document_ends.h"

namespace strata::data {
namespace {

constexpr int64_t kPieceBytes = 16 << 10;  // of what is read at once, on the stack
constexpr int64_t kAnyToken = int64_t{std::numeric_limits<int32_t>::max()} + 1;

// Widens `count` tokens. Returns the first that is not in [0, limit), -1 where there is none.
template <typename T>
int64_t Widen(const unsigned char* raw, int64_t count, int64_t limit, int32_t* tokens) {
  bool good = true;
  for (int64_t i = 0; i < count; ++i) {
    T token;
    std::memcpy(&token, raw + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    const auto value = static_cast<int64_t>(token);
    good &= value >= 0 && value < limit;
    tokens[i] = static_cast<int32_t>(value);
  }
  if (good) return -1;
  for (int64_t i = 0;; ++i) {
    T token;
    std::memcpy(&token, raw + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    const auto value = static_cast<int64_t>(token);
    if (value < 0 || value >= limit) return i;
  }
}

using WidenFunction = int64_t (*)(const unsigned char*, int64_t, int64_t, int32_t*);

WidenFunction WidenOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return Widen<uint8_t>;
    case TokenType::kI8:
      return Widen<int8_t>;
    case TokenType::kU16:
      return Widen<uint16_t>;
    case TokenType::kI16:
      return Widen<int16_t>;
    case TokenType::kU32:
      return Widen<uint32_t>;
    case TokenType::kI32:
      return Widen<int32_t>;
    case TokenType::kI64:
      break;
  }
  return Widen<int64_t>;
}

int64_t ValueOf(TokenType type, const unsigned char* raw) {
  const auto as = [&](auto token) {
    std::memcpy(&token, raw, sizeof(token));
    return static_cast<int64_t>(token);
  };
  switch (type) {
    case TokenType::kU8:
      return as(uint8_t{});
    case TokenType::kI8:
      return as(int8_t{});
    case TokenType::kU16:
      return as(uint16_t{});
    case TokenType::kI16:
      return as(int16_t{});
    case TokenType::kU32:
      return as(uint32_t{});
    case TokenType::kI32:
      return as(int32_t{});
    case TokenType::kI64:
      break;
  }
  return as(int64_t{});
}

}  // namespace

StoredTokens::StoredTokens(std::string path, InputFile file, const TokenLayout& layout,
                           int64_t vocabulary)
    : path_(std::move(path)),
      file_(std::move(file)),
      layout_(layout),
      limit_(vocabulary > 0 ? std::min(vocabulary, kAnyToken) : kAnyToken) {
  // Samples are read in random order: reading ahead would only fill the page cache.
  posix_fadvise(file_.descriptor(), 0, 0, POSIX_FADV_RANDOM);
}

absl::StatusOr<std::shared_ptr<const StoredTokens>> StoredTokens::Text(InputFile file,
                                                                       int64_t vocabulary) {
  TokenLayout layout;
  layout.tokens = file.size();
  const std::string path = file.path();
  auto source = std::make_shared<StoredTokens>(path, std::move(file), layout, vocabulary);
  source->text_ = true;
  source->vocabulary_ = 256;
  return source;
}

absl::StatusOr<std::shared_ptr<const StoredTokens>> StoredTokens::Array(InputFile file,
                                                                        const TokenLayout& layout,
                                                                        int64_t vocabulary) {
  const std::string path = file.path();
  auto source = std::make_shared<StoredTokens>(path, std::move(file), layout, vocabulary);
  RETURN_IF_ERROR(source->Sample());
  return source;
}

absl::StatusOr<std::shared_ptr<const StoredTokens>> StoredTokens::Megatron(
    InputFile index_file, InputFile data, const MegatronIndex& index, int64_t vocabulary) {
  TokenLayout layout;
  layout.type = index.type;
  layout.tokens = index.tokens;
  const std::string path = index_file.path();
  auto source = std::make_shared<StoredTokens>(path, std::move(data), layout, vocabulary);
  source->index_.emplace(std::move(index_file), index);
  RETURN_IF_ERROR(source->Sample());
  return source;
}

// A wrong file is nearly always wrong all over: 64 blocks tell before anything is trained.
absl::Status StoredTokens::Sample() {
  constexpr int64_t kBlocks = 64, kBlockTokens = 1024;
  vocabulary_ = layout_.vocabulary;
  int32_t block[kBlockTokens];
  const int64_t count = std::min(kBlockTokens, layout_.tokens);
  const int64_t blocks = std::min(kBlocks, (layout_.tokens + kBlockTokens - 1) / kBlockTokens);
  for (int64_t b = 0; b < blocks; ++b) {
    // Spread over the file; the last one is its end.
    const int64_t last = layout_.tokens - count;
    const int64_t begin =
        blocks == 1 ? 0 : static_cast<int64_t>(static_cast<__int128>(last) * b / (blocks - 1));
    // Judged later, by vocabulary(): a model that is too small is not the file's fault.
    int64_t beyond = 0;
    RETURN_IF_ERROR(ReadBelow(begin, count, kAnyToken, block));
    for (int64_t i = 0; i < count; ++i) beyond = std::max<int64_t>(beyond, block[i]);
    vocabulary_ = std::max(vocabulary_, beyond + 1);
  }
  return absl::OkStatus();
}

absl::Status StoredTokens::Read(int64_t begin, int64_t count, int32_t* tokens) const {
  return ReadBelow(begin, count, limit_, tokens);
}

absl::Status StoredTokens::ReadBelow(int64_t begin, int64_t count, int64_t limit,
                                     int32_t* tokens) const {
  STRATA_CHECK(begin >= 0 && count >= 0 && begin <= layout_.tokens - count);
  const int64_t width = BytesOf(layout_.type);
  const WidenFunction widen = WidenOf(layout_.type);
  unsigned char raw[kPieceBytes];
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(count - done, kPieceBytes / width);
    const int64_t at = begin + done;
    RETURN_IF_ERROR(file_.ReadAt(layout_.first_byte + at * width, piece * width, raw));
    const int64_t wrong = widen(raw, piece, limit, tokens + done);
    if (wrong >= 0) return Refuse(at + wrong, ValueOf(layout_.type, raw + wrong * width), limit);
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status StoredTokens::Refuse(int64_t position, int64_t token, int64_t limit) const {
  const std::string what = absl::StrCat(path_, ": token ", token, " at position ", position);
  if (token < 0 || limit == kAnyToken) {
    return absl::DataLossError(
        absl::StrCat(what,
                     " is no token (they are 0 to 2147483647) — the file is damaged or of "
                     "another kind: make it again"));
  }
  return absl::DataLossError(
      absl::StrCat(what, " is beyond the model's vocabulary of ", limit,
                   " — prepare the file with the model's tokenizer, or raise model.vocab"));
}

absl::Status StoredTokens::MaskTargets(int64_t begin, int64_t count, int32_t* targets) const {
  STRATA_CHECK(begin >= 0 && count >= 0 && begin <= layout_.tokens - count);
  if (!masked()) return absl::OkStatus();
  unsigned char bits[kPieceBytes];
  for (int64_t done = 0; done < count;) {
    const int64_t first = begin + done;
    const int64_t byte = first / 8;
    const int64_t piece = std::min(count - done, 8 * (kPieceBytes - 1));
    RETURN_IF_ERROR(file_.ReadAt(layout_.mask_byte + byte, (first + piece + 7) / 8 - byte, bits));
    for (int64_t i = 0; i < piece; ++i) {
      const int64_t bit = first + i - 8 * byte;
      if (((bits[bit / 8] >> (bit % 8)) & 1) == 0) targets[done + i] = -1;
    }
    done += piece;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> StoredTokens::DocumentEnds() const {
  if (text_) return std::vector<int64_t>{layout_.tokens};
  if (index_.has_value()) return ReadMegatronDocuments(index_->first, index_->second);
  return ReadDocumentEnds(path_, layout_.tokens);
}

}  // namespace strata::data
