#include "checkpoint/box.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::checkpoint {

int64_t Box::elements() const {
  int64_t count = 1;
  for (const int64_t size : extent) count *= size;
  return count;
}

Box WholeBox(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

bool IsInside(const Box& box, const std::vector<int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0 || box.extent[d] < 0 || box.extent[d] > shape[d] ||
        box.offset[d] > shape[d] - box.extent[d]) {
      return false;
    }
  }
  return true;
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  Box common;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end) return std::nullopt;
    common.offset.push_back(begin);
    common.extent.push_back(end - begin);
  }
  return common;
}

std::string ToText(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.offset.size(); ++d) {
    absl::StrAppend(&text, d == 0 ? "" : ", ", box.offset[d], ":", box.offset[d] + box.extent[d]);
  }
  return text + "]";
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& extent) {
  std::vector<int64_t> strides(extent.size(), 1);
  for (size_t d = extent.size(); d-- > 1;) strides[d - 1] = strides[d] * extent[d];
  return strides;
}

std::vector<Box> BoxesOf(const Region& region) {
  std::vector<Box> boxes;
  const std::vector<int64_t> strides = DenseStrides(region.box.extent);
  // From `at` on, as much as one box can hold: it begins at a multiple of a dimension's stride and
  // takes as many of them as are left in that dimension and in the region.
  for (int64_t at = region.begin; at < region.end;) {
    size_t dimension = 0;
    while (dimension + 1 < strides.size() &&
           (at % strides[dimension] != 0 || region.end - at < strides[dimension])) {
      ++dimension;
    }
    Box box{{}, std::vector<int64_t>(strides.size(), 1)};
    int64_t rest = at;
    for (size_t d = 0; d < strides.size(); ++d) {
      const int64_t index = rest / strides[d];
      rest %= strides[d];
      box.offset.push_back(region.box.offset[d] + index);
      if (d > dimension) box.extent[d] = region.box.extent[d];
      if (d != dimension) continue;
      box.extent[d] =
          std::min(region.box.extent[d] - index, (region.end - at) / strides[dimension]);
    }
    at += box.elements();
    boxes.push_back(std::move(box));
  }
  return boxes;
}

CommonRuns::CommonRuns(const Box& from, const Box& to) {
  const std::optional<Box> common = Intersect(from, to);
  if (!common.has_value()) {
    done_ = true;
    return;
  }
  const std::vector<int64_t> from_strides = DenseStrides(from.extent);
  const std::vector<int64_t> to_strides = DenseStrides(to.extent);
  run_.count = 1;
  // Dimensions from the last one on are folded into the run while both boxes hold all of them.
  size_t walked = common->extent.size();
  while (walked > 0) {
    const size_t d = --walked;
    run_.count *= common->extent[d];
    if (common->extent[d] != from.extent[d] || common->extent[d] != to.extent[d]) break;
  }
  for (size_t d = 0; d < common->offset.size(); ++d) {
    run_.from += (common->offset[d] - from.offset[d]) * from_strides[d];
    run_.to += (common->offset[d] - to.offset[d]) * to_strides[d];
  }
  extent_.assign(common->extent.begin(), common->extent.begin() + static_cast<long>(walked));
  from_stride_.assign(from_strides.begin(), from_strides.begin() + static_cast<long>(walked));
  to_stride_.assign(to_strides.begin(), to_strides.begin() + static_cast<long>(walked));
  at_.assign(walked, 0);
}

std::optional<CommonRuns::Run> CommonRuns::Next() {
  if (done_) return std::nullopt;
  const Run run = run_;
  size_t d = at_.size();
  while (d > 0) {
    --d;
    run_.from += from_stride_[d];
    run_.to += to_stride_[d];
    if (++at_[d] < extent_[d]) return run;
    run_.from -= from_stride_[d] * extent_[d];
    run_.to -= to_stride_[d] * extent_[d];
    at_[d] = 0;
  }
  done_ = true;
  return run;
}

}  // namespace strata::checkpoint
