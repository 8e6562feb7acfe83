// How a rank's connection proves that it belongs to this start of the job's ranks. The first bytes
// from the side that connects are its mark, the first ones back are the answer; each carries an
// HMAC-SHA256 under the epoch's nonce, which only the members of the epoch are told.
#ifndef STRATA_COLLECTIVES_CONNECTION_MARK_H_
#define STRATA_COLLECTIVES_CONNECTION_MARK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::collectives {

inline constexpr size_t kNonceBytes = 16;

// What all members of one start of a job's ranks know, and nobody else.
struct WorldKey {
  std::string nonce;  // kNonceBytes random bytes
  int64_t epoch = 0;
};

inline constexpr size_t kChallengeBytes = 16;
inline constexpr size_t kMarkBytes = 8 + 8 + 4 + 4 + kChallengeBytes + 32;
inline constexpr size_t kAnswerBytes = 8 + 32;

// Of a connection that rank `from` makes to rank `to`. `challenge`: random bytes of its own, which
// the answer must repeat the proof of, and which count once.
std::string MakeMark(const WorldKey& key, int from, int to, absl::string_view challenge);
std::string MakeAnswer(const WorldKey& key, int from, int to, absl::string_view challenge);

struct Marked {
  int from = 0;
  std::string challenge;
};
// The mark of another of the `size` ranks, to this one. PermissionDenied: why it is none.
absl::StatusOr<Marked> CheckMark(const WorldKey& key, int rank, int size, absl::string_view mark);
bool CheckAnswer(const WorldKey& key, int from, int to, absl::string_view challenge,
                 absl::string_view answer);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_CONNECTION_MARK_H_
