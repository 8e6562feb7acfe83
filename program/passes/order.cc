#include "program/passes/order.h"

#include <algorithm>

#include "common/check.h"

namespace strata::program {

void Order::Join(Clock& clock, int earlier) const {
  const Clock& other = clocks_[earlier];
  for (int s = 0; s < kStreamCount; ++s) clock[s] = std::max(clock[s], other[s]);
  int32_t& own = clock[static_cast<int>(nodes_[earlier].stream)];
  own = std::max(own, nodes_[earlier].position);
}

int Order::Add(Stream stream, const std::vector<int>& before) {
  const int id = static_cast<int>(nodes_.size());
  int& newest = newest_[static_cast<int>(stream)];
  Clock clock{};
  if (newest >= 0) Join(clock, newest);
  for (const int earlier : before) Join(clock, earlier);
  nodes_.push_back({stream, newest < 0 ? 1 : nodes_[newest].position + 1});
  clocks_.push_back(clock);
  newest = id;
  return id;
}

void Order::AddEdge(int earlier, int later) {
  STRATA_CHECK(later + 1 == static_cast<int>(nodes_.size()) && earlier < later);
  Join(clocks_[later], earlier);
}

std::optional<Stream> StreamThatNoOpNames(const Template& tmpl) {
  for (int s = 0; s < kStreamCount; ++s) {
    const Stream stream = static_cast<Stream>(s);
    if (std::none_of(tmpl.ops.begin(), tmpl.ops.end(),
                     [&](const Op& op) { return op.stream == stream; })) {
      return stream;
    }
  }
  return std::nullopt;
}

}  // namespace strata::program
