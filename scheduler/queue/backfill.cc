#include "scheduler/queue/backfill.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace strata::scheduler {
namespace {

// Other jobs' devices in the order of their release.
std::vector<const Holder*> Releases(const Board& board, const JobView& job) {
  std::vector<const Holder*> releases;
  for (const Holder& holder : board.holders()) {
    if (holder.job != &job) releases.push_back(&holder);
  }
  std::stable_sort(releases.begin(), releases.end(),
                   [](const Holder* a, const Holder* b) { return a->until < b->until; });
  return releases;
}

Occupancy After(const Board& board, const Occupancy& room,
                const std::vector<const Holder*>& releases, size_t ended) {
  Occupancy then = room;
  for (size_t i = 0; i < ended; ++i) Put(board.cluster(), releases[i]->devices, then);
  return then;
}

// How many must end before `fewest` devices of one kind are there; more than there are: never.
size_t EnoughAfter(const Board& board, const Occupancy& room,
                   const std::vector<const Holder*>& releases, const KindSet& kinds,
                   int64_t fewest) {
  std::vector<int64_t> count = board.CountByKind(room);
  size_t ended = 0;
  while (Board::MostOf(count, kinds) < fewest) {
    if (ended == releases.size()) return releases.size() + 1;
    for (const Device& d : releases[ended]->devices) {
      const bool back =
          board.cluster().nodes()[d.node].healthy && (room.free[d.node] >> d.device & 1) == 0;
      count[board.KindOfNode(d.node)] += back ? 1 : 0;
    }
    ++ended;
  }
  return ended;
}

}  // namespace

std::optional<Reservation> Reserve(Board& board, const JobView& job, const Occupancy& room,
                                   const KindSet& kinds, int64_t fewest, const Placer& place) {
  const std::vector<const Holder*> releases = Releases(board, job);
  const auto try_after = [&](size_t ended) { return place(After(board, room, releases, ended)); };
  const size_t enough = EnoughAfter(board, room, releases, kinds, fewest);
  if (enough > releases.size()) return std::nullopt;
  // Fitting is monotone in what is free: gallop to the first that fits, then bisect.
  size_t low = enough;  // all below do not fit
  size_t high = enough;
  std::optional<Placement> found = try_after(high);
  for (size_t stride = 1; !found.has_value(); stride *= 2) {
    if (high == releases.size()) return std::nullopt;
    low = high + 1;
    high = std::min(releases.size(), high + stride);
    found = try_after(high);
  }
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (auto earlier = try_after(middle)) {
      found = std::move(earlier);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  Reservation reservation{&job, 0, board.view().now, *std::move(found), {}, {}, {}};
  reservation.devices.free.resize(room.free.size(), 0);
  Put(board.cluster(), reservation.placement.ranks, reservation.devices);
  const Occupancy then = After(board, room, releases, high);
  const Occupancy held_back = Minus(then, board.For(job, then));
  reservation.with_buffer = Union(reservation.devices, held_back);
  // What the last of them leaves may have to fill the buffer, so that others' devices come free.
  const bool fills_buffer = !board.MayTakeBuffer(job);
  for (size_t i = 0; i < high; ++i) {
    const bool needed = fills_buffer && i + 1 == high;
    if (!needed && !Touches(releases[i]->devices, reservation.devices)) continue;
    reservation.at = std::max(reservation.at, releases[i]->until);
    reservation.needs.push_back(*releases[i]);
  }
  return reservation;
}

}  // namespace strata::scheduler
