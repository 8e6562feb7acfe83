#include "worker/trainer/quantised_weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "checkpoint/box.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "kernels/int8.h"
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

// `unit` counts from the first of `units`; `filled` says how many of its weights there are.
void QuantiseUnit(program::DType type, const float* weights, int64_t filled, float offset,
                  int64_t unit, absl::Span<std::byte> units) {
  if (type == program::DType::kNf4) {
    kernels::QuantiseNf4Unit(weights, filled, offset, &units[unit * program::kNf4UnitBytes]);
  } else {
    kernels::QuantiseNf4F32Unit(weights, filled, &units[unit * program::kNf4F32UnitBytes]);
  }
}

absl::Status LoadNf4(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                     checkpoint::TensorSource& source, absl::Span<std::byte> units) {
  STRATA_CHECK(begin % kNf4Unit == 0);
  const int64_t count = static_cast<int64_t>(units.size()) / program::BytesOf(set.type, kNf4Unit);
  std::vector<float> values(kNf4Unit);
  std::string tensor;
  float offset = 0;
  for (int64_t unit = 0; unit < count; ++unit) {
    const int64_t from = begin + unit * kNf4Unit;
    // Tensors begin with a unit, so one has elements of one tensor, and is its ranges in order.
    int64_t filled = 0;
    for (const LogicalRange& range : LogicalRanges(set, from, from + kNf4Unit, cut_index)) {
      if (range.name != tensor && set.type == program::DType::kNf4) {
        ASSIGN_OR_RETURN(offset, OffsetOf(range.name, range.shape, source));
      }
      tensor = range.name;
      STRATA_CHECK(range.flat_begin == from + filled);
      RETURN_IF_ERROR(source.ReadRegion(range.name, range.region(), values.data() + filled));
      filled += range.end - range.begin;
    }
    if (filled > 0) QuantiseUnit(set.type, values.data(), filled, offset, unit, units);
  }
  return absl::OkStatus();
}

// Reads rows [first, last) of a matrix, whole, a few at a time, and hands each to
// `take(row, values)`.
absl::Status ReadRows(const std::string& name, const std::vector<int64_t>& shape, int64_t first,
                      int64_t last, checkpoint::TensorSource& source,
                      const std::function<void(int64_t row, const float* values)>& take) {
  constexpr int64_t kPiece = int64_t{1} << 20;  // elements
  const int64_t columns = shape[1], most = std::max<int64_t>(1, kPiece / columns);
  std::vector<float> values(static_cast<size_t>(std::min(most, last - first) * columns));
  for (int64_t row = first; row < last; row += most) {
    const int64_t rows = std::min(most, last - row);
    const checkpoint::Region region{{{row, 0}, {rows, columns}}, 0, rows * columns};
    RETURN_IF_ERROR(source.ReadRegion(name, region, values.data()));
    for (int64_t i = 0; i < rows; ++i) take(row + i, &values[i * columns]);
  }
  return absl::OkStatus();
}

absl::Status LoadCodes(const LogicalRange& range, checkpoint::TensorSource& source, int8_t* codes) {
  const checkpoint::Region region = range.region();
  const int64_t width = region.box.extent[1], columns = range.shape[1];
  const int64_t origin = region.box.offset[0];
  const auto take = [&](int64_t row, const float* values) {
    const int64_t at = (row - origin) * width;
    const int64_t begin = std::max(range.begin, at), end = std::min(range.end, at + width);
    kernels::QuantiseInt8(values + region.box.offset[1] + (begin - at), end - begin,
                          kernels::Int8Scale(values, columns), codes + (begin - range.begin));
  };
  return ReadRows(range.name, range.shape, origin + range.begin / width,
                  origin + common::CeilDivide(range.end, width), source, take);
}

// `range`: of the scales of a matrix of this name and shape.
absl::Status LoadScales(const LogicalRange& range, const std::string& matrix,
                        const std::vector<int64_t>& shape, checkpoint::TensorSource& source,
                        std::byte* scales) {
  constexpr int64_t kScale = sizeof(float);  // elements of 8 bits
  STRATA_CHECK(range.begin % kScale == 0 && range.end % kScale == 0);
  const int64_t first = range.region().box.offset[0] + range.begin / kScale;
  const auto take = [&](int64_t row, const float* values) {
    const float scale = kernels::Int8Scale(values, shape[1]);
    std::memcpy(scales + (row - first) * kScale, &scale, kScale);
  };
  return ReadRows(matrix, shape, first, first + (range.end - range.begin) / kScale, source, take);
}

std::vector<int64_t> ShapeOf(const program::ParameterSet& set, const std::string& name) {
  for (const program::TensorSpec& tensor : set.tensors) {
    for (int part = 0; part < tensor.part_count(); ++part) {
      if (tensor.logical_name(part) == name) return tensor.logical_shape(part);
    }
  }
  STRATA_CHECK(false);
  return {};
}

absl::Status LoadInt8(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                      checkpoint::TensorSource& source, absl::Span<std::byte> bytes) {
  const int64_t end = begin + static_cast<int64_t>(bytes.size());
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    std::byte* const to = &bytes[range.flat_begin - begin];
    if (program::IsRowScales(range.name)) {
      const std::string matrix(absl::StripSuffix(range.name, program::kRowScales));
      RETURN_IF_ERROR(LoadScales(range, matrix, ShapeOf(set, matrix), source, to));
    } else {
      RETURN_IF_ERROR(LoadCodes(range, source, reinterpret_cast<int8_t*>(to)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadQuantised(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                           checkpoint::TensorSource& source, absl::Span<std::byte> bytes) {
  STRATA_CHECK(program::IsQuantised(set.type));
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  return program::IsNf4(set.type) ? LoadNf4(set, begin, cut_index, source, bytes)
                                  : LoadInt8(set, begin, cut_index, source, bytes);
}

}  // namespace strata::worker
