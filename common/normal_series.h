// Standard normal series (rng.h) by the thousand.
#ifndef STRATA_COMMON_NORMAL_SERIES_H_
#define STRATA_COMMON_NORMAL_SERIES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace strata::common {

// out[i] = scale * NormalAt(key, first + i), in every bit, whatever the processor.
void WriteNormals(uint64_t key, uint64_t first, float scale, absl::Span<float> out);

}  // namespace strata::common

#endif  // STRATA_COMMON_NORMAL_SERIES_H_
