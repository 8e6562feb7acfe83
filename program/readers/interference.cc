#include "program/readers/interference.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace strata::program {
namespace {

constexpr Stream kDiskStreams[] = {Stream::kSsdRead, Stream::kSsdWrite, Stream::kUpdateRead,
                                   Stream::kUpdateWrite};

// Between host and device.
constexpr Stream kToDevice[] = {Stream::kFetch, Stream::kUpdateFetch};
constexpr Stream kFromDevice[] = {Stream::kEvict, Stream::kUpdateEvict};

bool Reads(Stream stream) { return stream == Stream::kSsdRead || stream == Stream::kUpdateRead; }

template <typename Streams>
bool IsOneOf(const Streams& streams, Stream stream) {
  return std::find(std::begin(streams), std::end(streams), stream) != std::end(streams);
}

bool MovesBytes(Stream stream) {
  return IsOneOf(kDiskStreams, stream) || IsOneOf(kToDevice, stream) ||
         IsOneOf(kFromDevice, stream);
}

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
                              absl::Span<const double> alone, absl::Span<const Interference> beside,
                              double update_stretch) {
  std::vector<Busy> compute, communication, updates;
  std::array<std::vector<Busy>, kStreamCount> moving;  // of streams between tiers
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
    } else if (actions[a].stream == Stream::kUpdate) {
      updates.push_back(busy);
    } else if (MovesBytes(actions[a].stream)) {
      moving[static_cast<int>(actions[a].stream)].push_back(busy);
    }
  }
  SortByBegin(compute);
  SortByBegin(communication);
  SortByBegin(updates);
  for (std::vector<Busy>& stream : moving) SortByBegin(stream);
  const auto stretch_by = [&](double factor) {
    return [&seconds, factor](const Busy& one, const Busy&, double overlap) {
      seconds[one.node] += overlap * (1 - 1 / factor);
    };
  };
  const auto stretch = [&](const Busy& one, const Busy& other, double overlap) {
    stretch_by(beside[one.node % actions.size()].stretch)(one, other, overlap);
  };
  ForOverlaps(communication, compute, stretch);
  for (const Stream one : kDiskStreams) {
    for (const Stream other : kDiskStreams) {
      if (one == other) continue;
      const std::vector<Busy>& a = moving[static_cast<int>(one)];
      const std::vector<Busy>& b = moving[static_cast<int>(other)];
      // Two that move bytes the same way share what the disk gives.
      Reads(one) == Reads(other) ? ForOverlaps(a, b, stretch_by(2)) : ForOverlaps(a, b, stretch);
    }
  }
  for (const Stream to : kToDevice) {
    for (const Stream from : kFromDevice) {
      ForOverlaps(moving[static_cast<int>(to)], moving[static_cast<int>(from)], stretch);
      ForOverlaps(moving[static_cast<int>(from)], moving[static_cast<int>(to)], stretch);
    }
  }
  if (update_stretch > 1) {
    ForOverlaps(updates, compute, stretch_by(update_stretch));
    ForOverlaps(compute, updates, stretch_by(update_stretch));
  }
  ForOverlaps(compute, Merged(communication),
              [&](const Busy& one, const Busy& other, double overlap) {
                seconds[one.node] += overlap * other.lost;
              });
  return seconds;
}

}  // namespace strata::program
