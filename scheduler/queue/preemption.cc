#include "scheduler/queue/preemption.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "scheduler/queue/order.h"

namespace strata::scheduler {
namespace {

constexpr size_t kGroupsTried = 8;  // per level

// One group of the tree as a place for the job.
struct Site {
  int group = 0;
  int kind = 0;                 // that has enough
  std::vector<size_t> victims;  // indices into the victims, in their order: these would do by count
  double device_seconds = 0;    // of those
};

class Search {
 public:
  Search(Board& board, const std::vector<Victim>& victims, const Wanted& wanted, size_t most)
      : board_(board), victims_(victims), wanted_(wanted), most_(most) {
    forbidden_ = wanted.forbidden;
    forbidden_.free.resize(board.cluster().nodes().size(), 0);
    kept_ = wanted.kept;
    kept_.free.resize(board.cluster().nodes().size(), 0);
  }

  std::optional<Eviction> Run() {
    if (!EnoughByCount()) return std::nullopt;
    for (int depth = static_cast<int>(board_.cluster().levels().size()); depth >= 0; --depth) {
      if (!board_.MaySearch()) return std::nullopt;
      std::optional<Eviction> best;
      std::vector<Site> sites = SitesAt(depth);
      const size_t tried = std::min(sites.size(), kGroupsTried);
      for (size_t s = 0; s < tried; ++s) {
        std::optional<Eviction> found = EvictIn(sites[s]);
        if (found.has_value() && (!best.has_value() || Better(*found, *best))) {
          best = std::move(found);
        }
      }
      if (best.has_value()) return best;
    }
    return std::nullopt;
  }

 private:
  bool Usable(const Device& d) const {
    return board_.cluster().nodes()[d.node].healthy && wanted_.kinds[board_.KindOfNode(d.node)] &&
           (forbidden_.free[d.node] >> d.device & 1) == 0;
  }
  uint64_t RoomOn(int node) const {
    if (!wanted_.kinds[board_.KindOfNode(node)]) return 0;
    return wanted_.room.free[node] & ~kept_.free[node] & ~forbidden_.free[node];
  }

  bool EnoughByCount() const {
    std::vector<int64_t> count(board_.kinds().size(), 0);
    for (size_t n = 0; n < wanted_.room.free.size(); ++n) {
      count[board_.KindOfNode(n)] += std::popcount(RoomOn(n));
    }
    for (const Victim& victim : victims_) {
      for (const Device& d : victim.holder->devices) {
        if (Usable(d)) ++count[board_.KindOfNode(d.node)];
      }
    }
    return Board::MostOf(count, wanted_.kinds) >= wanted_.devices;
  }

  // Groups of the depth that have enough devices by count, cheapest first.
  std::vector<Site> SitesAt(int depth) const {
    const topology::Cluster& cluster = board_.cluster();
    const size_t kinds = board_.kinds().size();
    struct Tally {
      std::vector<int64_t> room;                                    // by kind
      std::vector<std::pair<size_t, std::vector<int64_t>>> shares;  // victim, devices by kind
    };
    std::vector<Tally> tallies(cluster.groups().size());
    for (size_t n = 0; n < cluster.nodes().size(); ++n) {
      Tally& tally = tallies[cluster.GroupOf(n, depth)];
      tally.room.resize(kinds, 0);
      tally.room[board_.KindOfNode(n)] += std::popcount(RoomOn(n));
    }
    for (size_t v = 0; v < victims_.size(); ++v) {
      for (const Device& d : victims_[v].holder->devices) {
        if (!Usable(d)) continue;
        Tally& tally = tallies[cluster.GroupOf(d.node, depth)];
        if (tally.shares.empty() || tally.shares.back().first != v) {
          tally.shares.push_back({v, std::vector<int64_t>(kinds, 0)});
        }
        ++tally.shares.back().second[board_.KindOfNode(d.node)];
      }
    }
    std::vector<Site> sites;
    for (size_t g = 0; g < tallies.size(); ++g) {
      for (size_t k = 0; k < kinds && !tallies[g].room.empty(); ++k) {
        Site site{static_cast<int>(g), static_cast<int>(k), {}, 0};
        int64_t count = tallies[g].room[k];
        for (const auto& [v, by_kind] : tallies[g].shares) {
          if (count >= wanted_.devices) break;
          if (by_kind[k] == 0) continue;
          count += by_kind[k];
          site.victims.push_back(v);
          site.device_seconds += victims_[v].device_seconds;
        }
        if (count < wanted_.devices || tallies[g].shares.empty()) continue;
        if (wanted_.kinds[k]) sites.push_back(std::move(site));
      }
    }
    std::stable_sort(sites.begin(), sites.end(), [](const Site& a, const Site& b) {
      return std::tuple(a.device_seconds, a.victims.size()) <
             std::tuple(b.device_seconds, b.victims.size());
    });
    return sites;
  }

  // The room inside the site's group, and what is kept.
  Occupancy RoomIn(const topology::Group& group) const {
    Occupancy room = kept_;
    for (int n = group.first_node; n < group.end_node; ++n) room.free[n] |= RoomOn(n);
    return room;
  }
  void PutIn(const topology::Group& group, const Victim& victim, Occupancy& room) const {
    for (const Device& d : victim.holder->devices) {
      if (d.node >= group.first_node && d.node < group.end_node && Usable(d)) {
        room.free[d.node] |= uint64_t{1} << d.device;
      }
    }
  }

  std::optional<Placement> PlaceAfter(const topology::Group& group,
                                      const std::vector<size_t>& stopped) const {
    Occupancy room = RoomIn(group);
    for (size_t v : stopped) PutIn(group, victims_[v], room);
    return wanted_.place(room);
  }

  std::optional<Eviction> EvictIn(const Site& site) const {
    const topology::Group& group = board_.cluster().groups()[site.group];
    // All that have devices of the kind here, in order; the first few may do.
    std::vector<size_t> here;
    for (size_t v = 0; v < victims_.size(); ++v) {
      const auto& devices = victims_[v].holder->devices;
      if (std::any_of(devices.begin(), devices.end(), [&](const Device& d) {
            return d.node >= group.first_node && d.node < group.end_node && Usable(d) &&
                   board_.KindOfNode(d.node) == site.kind;
          })) {
        here.push_back(v);
      }
    }
    const auto first = [&](size_t count) {
      return std::vector<size_t>(here.begin(), here.begin() + static_cast<int64_t>(count));
    };
    size_t low =
        site.victims.empty()
            ? 0
            : static_cast<size_t>(std::find(here.begin(), here.end(), site.victims.back()) -
                                  here.begin()) +
                  1;
    size_t high = low;
    std::optional<Placement> placement = PlaceAfter(group, first(high));
    for (size_t stride = 1; !placement.has_value(); stride *= 2) {
      if (high == here.size() || !board_.MaySearch()) return std::nullopt;
      low = high + 1;
      high = std::min(here.size(), high + stride);
      placement = PlaceAfter(group, first(high));
    }
    while (low < high && board_.MaySearch()) {
      const size_t middle = (low + high) / 2;
      if (auto fewer = PlaceAfter(group, first(middle))) {
        placement = std::move(fewer);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return Reduced(group, first(high), *std::move(placement));
  }

  // Drops victims that are not needed, the dearest first.
  std::optional<Eviction> Reduced(const topology::Group& group, std::vector<size_t> stopped,
                                  Placement placement) const {
    std::vector<size_t> dearest = stopped;
    std::stable_sort(dearest.begin(), dearest.end(), [&](size_t a, size_t b) {
      return victims_[a].device_seconds > victims_[b].device_seconds;
    });
    for (size_t v : dearest) {
      std::vector<size_t> others = stopped;
      std::erase(others, v);
      Occupancy used;
      used.free.resize(forbidden_.free.size(), 0);
      Put(board_.cluster(), placement.ranks, used);
      if (!wanted_.fills_buffer && !Touches(victims_[v].holder->devices, used)) {
        stopped = std::move(others);  // the placement does without it
      } else if (!board_.MaySearch()) {
        break;
      } else if (auto without = PlaceAfter(group, others)) {
        placement = *std::move(without);
        stopped = std::move(others);
      }
    }
    if (stopped.size() > most_) return std::nullopt;
    Eviction eviction{{}, 0, std::move(placement)};
    for (size_t v : stopped) {
      eviction.victims.push_back(victims_[v].holder->job);
      eviction.device_seconds += victims_[v].device_seconds;
    }
    std::sort(eviction.victims.begin(), eviction.victims.end(),
              [](const JobView* a, const JobView* b) { return a->name < b->name; });
    if (wanted_.accept && !wanted_.accept(eviction)) return std::nullopt;
    return eviction;
  }

  static bool Better(const Eviction& a, const Eviction& b) {
    const auto oldest = [](const Eviction& e) {
      double at = std::numeric_limits<double>::infinity();
      for (const JobView* victim : e.victims) at = std::min(at, victim->started_at);
      return at;
    };
    return std::tuple(a.device_seconds, a.victims.size(), -oldest(a)) <
           std::tuple(b.device_seconds, b.victims.size(), -oldest(b));
  }

  Board& board_;
  const std::vector<Victim>& victims_;
  const Wanted& wanted_;
  size_t most_;
  Occupancy forbidden_;
  Occupancy kept_;
};

}  // namespace

Stoppable::Stoppable(const Board& board) {
  std::vector<Victim> victims = VictimsOf(board, [](int64_t) { return true; });
  std::stable_sort(victims.begin(), victims.end(),
                   [](const Victim& a, const Victim& b) { return a.priority < b.priority; });
  std::vector<int64_t> count(board.kinds().size(), 0);
  for (const Victim& victim : victims) {
    for (const Device& d : victim.holder->devices) ++count[board.KindOfNode(d.node)];
    priorities_.push_back(victim.priority);
    by_kind_.push_back(count);
  }
}

const std::vector<int64_t>* Stoppable::Below(int64_t priority) const {
  const auto end = std::lower_bound(priorities_.begin(), priorities_.end(), priority);
  return end == priorities_.begin() ? nullptr : &by_kind_[end - priorities_.begin() - 1];
}

namespace {

std::vector<Victim> VictimsAmong(const Board& board,
                                 const std::function<bool(const Holder&)>& may_stop) {
  const View& view = board.view();
  std::vector<Victim> victims;
  for (const Holder& holder : board.holders()) {
    const JobView& job = *holder.job;
    if (job.phase != JobPhase::kRunning || holder.devices.empty() || !may_stop(holder)) continue;
    const double lost = std::max(0.0, view.now - std::max(job.checkpoint_at, job.started_at));
    victims.push_back({&holder, EffectivePriority(view.policy, job),
                       lost * static_cast<double>(holder.devices.size())});
  }
  std::stable_sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) {
    const auto key = [](const Victim& v) {
      return std::tuple(v.device_seconds / static_cast<double>(v.holder->devices.size()),
                        -v.holder->job->started_at);
    };
    return key(a) < key(b);
  });
  return victims;
}

}  // namespace

std::vector<Victim> VictimsOf(const Board& board, const std::function<bool(int64_t)>& may_stop) {
  const View& view = board.view();
  return VictimsAmong(board, [&](const Holder& holder) {
    return view.now - holder.job->started_at >= view.policy.min_run_seconds &&
           may_stop(EffectivePriority(view.policy, *holder.job));
  });
}

std::vector<Victim> BorrowersOf(const Board& board) {
  const BufferNodes buffer = board.BufferNow();
  if (buffer.lent.empty()) return {};
  Occupancy lent;
  lent.free.resize(board.cluster().nodes().size(), 0);
  for (const int node : buffer.lent) lent.free[node] = ~uint64_t{0};
  return VictimsAmong(board, [&](const Holder& holder) {
    return IsPreemptible(board.view().policy, *holder.job) && Touches(holder.devices, lent);
  });
}

std::optional<Eviction> FindEviction(Board& board, const std::vector<Victim>& victims,
                                     const Wanted& wanted, size_t most) {
  return Search(board, victims, wanted, most).Run();
}

}  // namespace strata::scheduler
