#include "program/passes/hazards.h"

#include <algorithm>

namespace strata::program {
namespace {

constexpr std::array<int, kStreamCount> NoReaders() {
  std::array<int, kStreamCount> readers{};
  for (int& reader : readers) reader = -1;
  return readers;
}

}  // namespace

HazardMap::Segments::iterator HazardMap::Cut(Segments& segments, int64_t begin, int64_t end) {
  for (const int64_t at : {begin, end}) {
    auto next = segments.upper_bound(at);
    if (next == segments.begin()) continue;
    auto holder = std::prev(next);
    if (holder->first == at || holder->second.end <= at) continue;
    Segment right = holder->second;
    holder->second.end = at;
    segments.emplace_hint(next, at, right);
  }
  int64_t at = begin;
  for (auto it = segments.lower_bound(begin); at < end; ++it) {
    const int64_t next = it == segments.end() ? end : std::min(end, it->first);
    if (at < next) {
      it =
          segments.emplace_hint(it, at, Segment{.end = next, .writer = -1, .readers = NoReaders()});
    }
    at = it->second.end;
  }
  return segments.lower_bound(begin);
}

void HazardMap::Use(int space, int64_t begin, int64_t end, Access access, int node, Stream stream,
                    std::vector<int>& conflicts) {
  if (begin >= end) return;
  Segments& segments = spaces_[space];
  const auto add = [&](int other) {
    if (other >= 0 && other != node &&
        std::find(conflicts.begin(), conflicts.end(), other) == conflicts.end()) {
      conflicts.push_back(other);
    }
  };
  for (auto it = Cut(segments, begin, end); it != segments.end() && it->first < end; ++it) {
    Segment& segment = it->second;
    add(segment.writer);
    if (access == Access::kRead) {
      segment.readers[static_cast<int>(stream)] = node;
      continue;
    }
    for (const int reader : segment.readers) add(reader);
    segment.writer = node;
    segment.readers = NoReaders();
  }
}

}  // namespace strata::program
