// How the 64-bit tag of a message is made up. The upper part says which message it is, and receives
// match on it; the lower part says what its sender believes to be doing, and a receiver that
// believes otherwise reports it.
//
//   63      62 … 36    35 … 22         21 … 12                  11      10 … 7   6 … 0
//   point   group key  source's index  sequence or user's tag   phase   kind     hash of type, root
//   and size to point                           (modulo 1024)
//
// The sequence may wrap: messages of one tag between two ranks keep their order, and receives are
// posted in order.
#ifndef STRATA_COLLECTIVES_MESSAGE_TAG_H_
#define STRATA_COLLECTIVES_MESSAGE_TAG_H_

#include <cstdint>

#include "collectives/communicator.h"

namespace strata::collectives {

inline constexpr int kGroupKeyBits = 27;
inline constexpr uint64_t kCheckedBits = (uint64_t{1} << 11) - 1;
inline constexpr uint64_t kMatchedBits = ~kCheckedBits;
// Any source and phase: every message of one collective.
inline constexpr uint64_t kCollectiveBits =
    kMatchedBits & ~(uint64_t{kMaxGroupSize - 1} << 22) & ~(uint64_t{1} << 11);

static_assert(kMaxGroupSize == 1 << 14 && kMaxTag == 1 << 10);

struct MessageTag {
  bool point_to_point = false;
  uint32_t group_key = 0;
  int source = 0;
  uint64_t sequence_or_tag = 0;
  int phase = 0;
  OpKind kind = OpKind::kBarrier;
  uint8_t hash = 0;  // its lower seven bits

  uint64_t Pack() const {
    return uint64_t{point_to_point} << 63 | uint64_t{group_key} << 36 |
           static_cast<uint64_t>(source) << 22 | (sequence_or_tag % kMaxTag) << 12 |
           static_cast<uint64_t>(phase) << 11 | static_cast<uint64_t>(kind) << 7 | (hash & 0x7f);
  }
};

inline OpKind KindOf(uint64_t tag) { return static_cast<OpKind>(tag >> 7 & 15); }
inline int SourceOf(uint64_t tag) { return static_cast<int>(tag >> 22 & (kMaxGroupSize - 1)); }

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_MESSAGE_TAG_H_
