#include "worker/trainer/quantised_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/nf4.h"
#include "worker/trainer/logical_ranges.h"

namespace strata::worker {
namespace {

using program::kNf4Unit;

// The mean of the scales of a whole tensor.
absl::StatusOr<float> OffsetOf(const std::string& name, const std::vector<int64_t>& shape,
                               checkpoint::TensorSource& source) {
  const checkpoint::Box whole = checkpoint::WholeBox(shape);
  const int64_t count = whole.elements();
  constexpr int64_t kPiece = 64 * kNf4Unit;
  std::vector<float> values(static_cast<size_t>(std::min(count, kPiece)));
  double sum = 0;
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t end = std::min(count, at + kPiece);
    RETURN_IF_ERROR(source.ReadRegion(name, {whole, at, end}, values.data()));
    sum += kernels::SumOfNf4Scales(values.data(), end - at);
  }
  const int64_t blocks = (count + kernels::kNf4Block - 1) / kernels::kNf4Block;
  return static_cast<float>(sum / static_cast<double>(blocks));
}

}  // namespace

absl::Status LoadQuantised(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                           checkpoint::TensorSource& source, absl::Span<std::byte> units) {
  STRATA_CHECK(set.type == program::DType::kNf4 && begin % kNf4Unit == 0);
  std::fill(units.begin(), units.end(), std::byte{0});
  const int64_t count = static_cast<int64_t>(units.size()) / program::kNf4UnitBytes;
  std::vector<float> values(kNf4Unit);
  std::string tensor;
  float offset = 0;
  for (int64_t unit = 0; unit < count; ++unit) {
    const int64_t from = begin + unit * kNf4Unit;
    // Tensors begin with a unit, so one has elements of one tensor, and is its ranges in order.
    int64_t filled = 0;
    for (const LogicalRange& range : LogicalRanges(set, from, from + kNf4Unit, cut_index)) {
      if (range.name != tensor) {
        tensor = range.name;
        ASSIGN_OR_RETURN(offset, OffsetOf(tensor, range.shape, source));
      }
      STRATA_CHECK(range.flat_begin == from + filled);
      RETURN_IF_ERROR(source.ReadRegion(range.name, range.region(), values.data() + filled));
      filled += range.end - range.begin;
    }
    if (filled == 0) continue;
    kernels::QuantiseNf4Unit(values.data(), filled, offset,
                             units.data() + unit * program::kNf4UnitBytes);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
