#include "program/readers/interference.h"

#include <algorithm>

namespace strata::program {
namespace {

struct Busy {
  double begin = 0, end = 0;
  int node = 0;
  double lost = 0;  // of communication
};

// By begin. Those of one stream, such as compute, do not overlap; those of communication may.
void SortByBegin(std::vector<Busy>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Busy& a, const Busy& b) { return a.begin < b.begin; });
}

// Of a moment with several communications the greatest loss counts: one thread serves them all.
std::vector<Busy> Merged(const std::vector<Busy>& communication) {
  std::vector<double> times;
  for (const Busy& each : communication) times.insert(times.end(), {each.begin, each.end});
  std::sort(times.begin(), times.end());
  std::vector<Busy> merged;
  std::vector<const Busy*> open;
  size_t next = 0;
  for (size_t t = 0; t + 1 < times.size(); ++t) {
    while (next < communication.size() && communication[next].begin <= times[t]) {
      open.push_back(&communication[next++]);
    }
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const Busy* each) { return each->end <= times[t]; }),
               open.end());
    if (open.empty() || times[t + 1] <= times[t]) continue;
    Busy piece{.begin = times[t], .end = times[t + 1]};
    for (const Busy* each : open) piece.lost = std::max(piece.lost, each->lost);
    merged.push_back(piece);
  }
  return merged;
}

// Calls `add` for each pair that overlaps. `a` and `b` are sorted, `b` without overlaps in itself.
template <typename Add>
void ForOverlaps(const std::vector<Busy>& a, const std::vector<Busy>& b, const Add& add) {
  for (const Busy& each : a) {
    auto other = std::lower_bound(b.begin(), b.end(), each.begin,
                                  [](const Busy& x, double begin) { return x.end <= begin; });
    for (; other != b.end() && other->begin < each.end; ++other) {
      add(each, *other, std::min(each.end, other->end) - std::max(each.begin, other->begin));
    }
  }
}

}  // namespace

std::vector<double> Disturbed(absl::Span<const Action> actions, absl::Span<const Span> spans,
                              absl::Span<const double> alone,
                              absl::Span<const Interference> beside) {
  std::vector<Busy> compute, communication, reads, writes;
  std::vector<double> seconds(spans.size());
  for (size_t node = 0; node < spans.size(); ++node) {
    const size_t a = node % actions.size();
    seconds[node] = alone[a];
    if (spans[node].end <= spans[node].begin) continue;
    const Busy busy{spans[node].begin, spans[node].end, static_cast<int>(node),
                    beside[a].compute_lost};
    if (actions[a].stream == Stream::kCompute) {
      compute.push_back(busy);
    } else if (actions[a].is_communication() && beside[a].any()) {
      communication.push_back(busy);
    } else if (actions[a].stream == Stream::kSsdRead) {
      reads.push_back(busy);
    } else if (actions[a].stream == Stream::kSsdWrite) {
      writes.push_back(busy);
    }
  }
  SortByBegin(compute);
  SortByBegin(communication);
  SortByBegin(reads);
  SortByBegin(writes);
  const auto stretch = [&](const Busy& one, const Busy&, double overlap) {
    const Interference& it = beside[one.node % actions.size()];
    seconds[one.node] += overlap * (1 - 1 / it.stretch);
  };
  ForOverlaps(communication, compute, stretch);
  ForOverlaps(reads, writes, stretch);
  ForOverlaps(writes, reads, stretch);
  ForOverlaps(compute, Merged(communication),
              [&](const Busy& one, const Busy& other, double overlap) {
                seconds[one.node] += overlap * other.lost;
              });
  return seconds;
}

}  // namespace strata::program
