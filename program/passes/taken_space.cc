#include "program/passes/taken_space.h"

#include <algorithm>
#include <bit>

namespace strata::program {

void ByteSet::Insert(ByteRange bytes) {
  const auto from = std::lower_bound(ranges_.begin(), ranges_.end(), bytes.begin,
                                     [](const ByteRange& r, int64_t at) { return r.end < at; });
  auto to = from;
  for (; to != ranges_.end() && to->begin <= bytes.end; ++to) {
    bytes = {std::min(bytes.begin, to->begin), std::max(bytes.end, to->end)};
  }
  if (from == to) {
    ranges_.insert(from, bytes);
  } else {
    *from = bytes;
    ranges_.erase(from + 1, to);
  }
}

bool ByteSet::Meets(ByteRange bytes) const {
  const auto from = std::upper_bound(ranges_.begin(), ranges_.end(), bytes.begin,
                                     [](int64_t at, const ByteRange& r) { return at < r.end; });
  return from != ranges_.end() && from->begin < bytes.end;
}

TakenSpace::TakenSpace(int positions)
    : leaves_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, positions))))),
      nodes_(2 * static_cast<size_t>(leaves_)) {}

void TakenSpace::Take(int first, int last, ByteRange bytes) {
  for (int low = first + leaves_, high = last + leaves_ + 1; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) {
      nodes_[low].whole.Insert(bytes);
      nodes_[low++].some.Insert(bytes);
    }
    if (high % 2 == 1) {
      nodes_[--high].whole.Insert(bytes);
      nodes_[high].some.Insert(bytes);
    }
  }
  // What is above the nodes found is above one of the ends.
  int low = (first + leaves_) / 2, high = (last + leaves_) / 2;
  for (; low != high; low /= 2, high /= 2) {
    nodes_[low].some.Insert(bytes);
    nodes_[high].some.Insert(bytes);
  }
  for (; low > 0; low /= 2) nodes_[low].some.Insert(bytes);
}

void TakenSpace::Collect(int first, int last, std::vector<ByteRange>& taken) const {
  const auto append = [&](const ByteSet& set) {
    taken.insert(taken.end(), set.ranges().begin(), set.ranges().end());
  };
  for (int low = first + leaves_, high = last + leaves_ + 1; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) append(nodes_[low++].some);
    if (high % 2 == 1) append(nodes_[--high].some);
  }
  int low = (first + leaves_) / 2, high = (last + leaves_) / 2;
  for (; low != high; low /= 2, high /= 2) {
    append(nodes_[low].whole);
    append(nodes_[high].whole);
  }
  for (; low > 0; low /= 2) append(nodes_[low].whole);
}

}  // namespace strata::program
