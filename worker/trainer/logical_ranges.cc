#include "worker/trainer/logical_ranges.h"

#include <algorithm>

namespace strata::worker {
namespace {

// The logical tensors of one tensor, with their place in the flat layout, whole.
std::vector<LogicalRange> WholeParts(const program::TensorSpec& tensor) {
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  const int64_t row_elements = rows == 0 ? 0 : tensor.elements() / rows;
  std::vector<program::TensorSpec::Part> parts = tensor.parts;
  if (parts.empty()) parts.push_back({tensor.name, rows});
  std::vector<LogicalRange> found;
  int64_t at = tensor.offset;
  for (const program::TensorSpec::Part& part : parts) {
    LogicalRange range{part.name, tensor.shape, 0, part.rows * row_elements, at};
    if (!range.shape.empty()) range.shape[0] = part.rows;
    at += range.end;
    found.push_back(std::move(range));
  }
  return found;
}

}  // namespace

std::vector<LogicalRange> LogicalRanges(const program::ParameterSet& set, int64_t begin,
                                        int64_t end) {
  std::vector<LogicalRange> found;
  for (const program::TensorSpec& tensor : set.tensors) {
    for (LogicalRange range : WholeParts(tensor)) {
      const int64_t first = std::max(begin, range.flat_begin);
      const int64_t last = std::min(end, range.flat_begin + range.end);
      if (first >= last) continue;
      const int64_t origin = range.flat_begin;
      range.begin = first - origin;
      range.end = last - origin;
      range.flat_begin = first;
      found.push_back(std::move(range));
    }
  }
  return found;
}

}  // namespace strata::worker
