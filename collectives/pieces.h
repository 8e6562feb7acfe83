// How reductions divide their elements among the members.
#ifndef STRATA_COLLECTIVES_PIECES_H_
#define STRATA_COLLECTIVES_PIECES_H_

#include <algorithm>
#include <cstdint>

#include "collectives/communicator.h"
#include "common/units.h"

namespace strata::collectives {

inline constexpr int64_t kScratchAlignment = 64;

// An all-reduce of few bytes is one exchange, in which every member receives all vectors whole and
// adds them itself; a longer one is a reduce-scatter and an all-gather. Both add in the same tree,
// so the bits are the same.
inline bool AllReduceIsOneExchange(DataType type, int64_t count, int group_size) {
  constexpr int64_t kVectorBytes = 8 * common::kKiB;
  constexpr int64_t kTotalBytes = 256 * common::kKiB;
  const int64_t bytes = count * ElementBytes(type);
  return bytes <= kVectorBytes && bytes * group_size <= kTotalBytes;
}

// Elements of a longer all-reduce's pieces: whole cache lines, the last ones shorter or empty.
inline int64_t PieceCount(DataType type, int64_t count, int group_size) {
  return common::RoundUp(common::CeilDivide(count, group_size),
                         kScratchAlignment / ElementBytes(type));
}

struct Piece {
  int64_t begin;
  int64_t count;
};
inline Piece PieceAt(int64_t piece_count, int64_t count, int index) {
  const int64_t begin = std::min(count, piece_count * index);
  return {begin, std::min(piece_count, count - begin)};
}

// Bytes between two received pieces in the scratch of a reduction.
inline int64_t ScratchStride(OpKind kind, DataType type, int64_t count, int group_size) {
  const bool whole =
      kind == OpKind::kReduceScatter || AllReduceIsOneExchange(type, count, group_size);
  const int64_t elements = whole ? count : PieceCount(type, count, group_size);
  return common::RoundUp(elements * ElementBytes(type), kScratchAlignment);
}

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_PIECES_H_
