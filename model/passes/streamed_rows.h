// How many rows of a streamed value (logits) exist at once, where nobody says.
#ifndef STRATA_MODEL_PASSES_STREAMED_ROWS_H_
#define STRATA_MODEL_PASSES_STREAMED_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "common/units.h"

namespace strata::model {

// The table's gradient is read and written in f32 once per chunk: 8 bytes an element, of which each
// row makes 6 operations (three products). An H200 makes some 150 operations of 16 bits in the time
// of a byte, so a chunk's reads and writes take as long as 200 rows' products: a tenth of the
// head's time with 2048 rows, a twentieth with 4096, for twice the logits. Up to 512 MiB of them
// that is a bargain: GPT-2's 50,304 have 4096 rows (393 MiB), 151,936 have 2048 (594 MiB). With
// fewer the products suffer too: in chunks of 256 rows they took 2.5 times as long as in one.
inline int64_t StreamedRows(int64_t row_bytes, bool in_16_bits_on_gpu) {
  const int64_t bytes = std::max<int64_t>(1, row_bytes);
  if (in_16_bits_on_gpu) return std::clamp<int64_t>(512 * common::kMiB / bytes, 2048, 4096);
  return std::max<int64_t>(256, 16 * common::kMiB / bytes);
}

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_STREAMED_ROWS_H_
