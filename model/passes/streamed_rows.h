// How many rows of a streamed value (logits) exist at once, where nobody says.
#ifndef STRATA_MODEL_PASSES_STREAMED_ROWS_H_
#define STRATA_MODEL_PASSES_STREAMED_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "common/units.h"

namespace strata::model {

// The table's gradient is read and written in f32 once per chunk: 8 bytes for 2 x rows operations.
// With few rows this bounds the head: an H200 makes some 180 operations of 16 bits in the time of a
// byte (of f32 16), and its products took 2.5 times as long in chunks of 256 rows as in one. From
// 2048 on nothing is to be gained.
inline int64_t StreamedRows(int64_t row_bytes, bool in_16_bits_on_gpu) {
  const int64_t bytes = std::max<int64_t>(1, row_bytes);
  if (in_16_bits_on_gpu) return std::clamp<int64_t>(512 * common::kMiB / bytes, 1024, 2048);
  return std::max<int64_t>(256, 16 * common::kMiB / bytes);
}

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_STREAMED_ROWS_H_
