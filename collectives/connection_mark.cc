#include "collectives/connection_mark.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::collectives {
namespace {

constexpr char kMarkMagic[] = "strata>1", kAnswerMagic[] = "strata<1";
constexpr size_t kMagicSize = 8, kMacBytes = 32;
static_assert(sizeof(kMarkMagic) == kMagicSize + 1 && sizeof(kAnswerMagic) == kMagicSize + 1);

void AppendWord(std::string& text, uint64_t word, int bytes) {
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(word >> (8 * i) & 0xff));
}

uint64_t WordAt(absl::string_view text, size_t at, int bytes) {
  uint64_t word = 0;
  for (int i = 0; i < bytes; ++i) word |= uint64_t{static_cast<uint8_t>(text[at + i])} << (8 * i);
  return word;
}

// What both directions are made over; the magic tells them apart.
std::string Body(absl::string_view magic, const WorldKey& key, int from, int to,
                 absl::string_view challenge) {
  std::string body(magic);
  AppendWord(body, static_cast<uint64_t>(key.epoch), 8);
  AppendWord(body, static_cast<uint64_t>(from), 4);
  AppendWord(body, static_cast<uint64_t>(to), 4);
  absl::StrAppend(&body, challenge);
  return body;
}

std::string MacOf(const WorldKey& key, absl::string_view body) {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  STRATA_CHECK(HMAC(EVP_sha256(), key.nonce.data(), static_cast<int>(key.nonce.size()),
                    reinterpret_cast<const unsigned char*>(body.data()), body.size(), mac,
                    &size) != nullptr &&
               size == kMacBytes);
  return std::string(reinterpret_cast<const char*>(mac), size);
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string MakeMark(const WorldKey& key, int from, int to, absl::string_view challenge) {
  std::string mark = Body(kMarkMagic, key, from, to, challenge);
  return mark + MacOf(key, mark);
}

std::string MakeAnswer(const WorldKey& key, int from, int to, absl::string_view challenge) {
  return absl::StrCat(kAnswerMagic, MacOf(key, Body(kAnswerMagic, key, from, to, challenge)));
}

absl::StatusOr<Marked> CheckMark(const WorldKey& key, int rank, int size, absl::string_view mark) {
  if (mark.size() != kMarkBytes || mark.substr(0, kMagicSize) != kMarkMagic) {
    return absl::PermissionDeniedError("it does not begin as a rank's connection does");
  }
  const auto epoch = static_cast<int64_t>(WordAt(mark, 8, 8));
  const uint64_t from = WordAt(mark, 16, 4), to = WordAt(mark, 20, 4);
  if (epoch != key.epoch) {
    return absl::PermissionDeniedError(
        absl::StrCat("it is of epoch ", epoch, ", and this is epoch ", key.epoch));
  }
  const absl::string_view body = mark.substr(0, kMarkBytes - kMacBytes);
  if (!SameBytes(MacOf(key, body), mark.substr(body.size()))) {
    return absl::PermissionDeniedError("it was made without this epoch's nonce");
  }
  const auto self = static_cast<uint64_t>(rank);
  if (to != self || from == self || from >= static_cast<uint64_t>(size)) {
    return absl::PermissionDeniedError(
        absl::StrCat("it is from rank ", from, " to rank ", to, ", and this is rank ", rank));
  }
  return Marked{static_cast<int>(from), std::string(mark.substr(24, kChallengeBytes))};
}

bool CheckAnswer(const WorldKey& key, int from, int to, absl::string_view challenge,
                 absl::string_view answer) {
  return SameBytes(MakeAnswer(key, from, to, challenge), answer);
}

}  // namespace strata::collectives
