#include "worker/trainer/logical_ranges.h"

#include <algorithm>

namespace strata::worker {
namespace {

// All that the rank holds of a logical tensor.
LogicalRange RangeOf(const program::TensorSpec& tensor, int part, int64_t flat_begin,
                     int64_t cut_index) {
  LogicalRange range{.name = tensor.logical_name(part), .shape = tensor.logical_shape(part)};
  checkpoint::Box box = checkpoint::WholeBox(range.shape);
  if (tensor.cut.ways > 1) {
    const int dimension = tensor.cut.dimension;
    const int64_t share = (box.extent[dimension] + tensor.cut.padding) / tensor.cut.ways;
    box.offset[dimension] = cut_index * share;
    box.extent[dimension] =
        dimension == 0 && tensor.cut.padding > 0 ? tensor.held_rows(cut_index) : share;
    range.box = box;
  }
  range.end = box.elements();
  range.flat_begin = flat_begin;
  return range;
}

}  // namespace

std::vector<LogicalRange> LogicalRanges(const program::ParameterSet& set, int64_t begin,
                                        int64_t end, int64_t cut_index) {
  std::vector<LogicalRange> found;
  for (const program::TensorSpec& tensor : set.tensors) {
    int64_t flat = tensor.offset;
    for (int part = 0; part < tensor.part_count(); ++part) {
      LogicalRange range = RangeOf(tensor, part, flat, cut_index);
      const int64_t origin = flat, first = std::max(begin, origin);
      const int64_t last = std::min(end, origin + range.end);
      flat += tensor.parts.empty() ? tensor.elements() : range.end;
      if (first >= last) continue;
      range.begin = first - origin;
      range.end = last - origin;
      range.flat_begin = first;
      found.push_back(std::move(range));
    }
  }
  return found;
}

}  // namespace strata::worker
