#include "program/passes/taken_space.h"

#include <algorithm>
#include <bit>

namespace strata::program {

TakenSpace::TakenSpace(int positions)
    : leaves_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, positions))))),
      nodes_(2 * static_cast<size_t>(leaves_)) {}

void TakenSpace::Insert(Ranges& ranges, ByteRange bytes) {
  const auto from = std::lower_bound(ranges.begin(), ranges.end(), bytes.begin,
                                     [](const ByteRange& r, int64_t at) { return r.end < at; });
  auto to = from;
  for (; to != ranges.end() && to->begin <= bytes.end; ++to) {
    bytes = {std::min(bytes.begin, to->begin), std::max(bytes.end, to->end)};
  }
  if (from == to) {
    ranges.insert(from, bytes);
  } else {
    *from = bytes;
    ranges.erase(from + 1, to);
  }
}

void TakenSpace::Take(int first, int last, ByteRange bytes) {
  for (int low = first + leaves_, high = last + leaves_ + 1; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) {
      Insert(nodes_[low].whole, bytes);
      Insert(nodes_[low++].some, bytes);
    }
    if (high % 2 == 1) {
      Insert(nodes_[--high].whole, bytes);
      Insert(nodes_[high].some, bytes);
    }
  }
  // What is above the nodes found is above one of the ends.
  int low = (first + leaves_) / 2, high = (last + leaves_) / 2;
  for (; low != high; low /= 2, high /= 2) {
    Insert(nodes_[low].some, bytes);
    Insert(nodes_[high].some, bytes);
  }
  for (; low > 0; low /= 2) Insert(nodes_[low].some, bytes);
}

void TakenSpace::Collect(int first, int last, std::vector<ByteRange>& taken) const {
  const auto append = [&](const Ranges& ranges) {
    taken.insert(taken.end(), ranges.begin(), ranges.end());
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
