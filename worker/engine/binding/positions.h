// Rows that stand at positions of a table: kernels index it with what the host handed in.
#ifndef STRATA_WORKER_ENGINE_BINDING_POSITIONS_H_
#define STRATA_WORKER_ENGINE_BINDING_POSITIONS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace strata::worker {

inline absl::Status CheckPositions(const int32_t* positions, int64_t rows, int64_t table_rows) {
  const auto [least, most] = std::minmax_element(positions, positions + rows);
  if (*least >= 0 && *most < table_rows) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("position ", *least < 0 ? *least : *most,
                                            " is outside the table of ", table_rows));
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_POSITIONS_H_
