#include "scheduler/queue/board.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/check.h"

namespace strata::scheduler {
namespace {

// Nodes that searches of one decision may visit, each placement visiting all of the cluster: some
// hundred placements on 12,500 nodes, and more than enough on small clusters.
constexpr int64_t kEffort = 2'000'000;

bool Exists(const topology::Cluster& cluster, const Device& device) {
  return device.node >= 0 && device.node < static_cast<int>(cluster.nodes().size()) &&
         device.device >= 0 && device.device < cluster.nodes()[device.node].devices;
}

std::vector<Device> Existing(const topology::Cluster& cluster, const std::vector<Device>& devices) {
  std::vector<Device> existing;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(existing),
               [&](const Device& d) { return Exists(cluster, d); });
  return existing;
}

}  // namespace

void Put(const topology::Cluster& cluster, const std::vector<Device>& devices, Occupancy& into) {
  for (const Device& d : devices) {
    if (Exists(cluster, d) && cluster.nodes()[d.node].healthy) {
      into.free[d.node] |= uint64_t{1} << d.device;
    }
  }
}

void Take(const std::vector<Device>& devices, Occupancy& from) {
  for (const Device& d : devices) {
    if (d.node >= 0 && d.node < static_cast<int>(from.free.size())) {
      from.free[d.node] &= ~(uint64_t{1} << d.device);
    }
  }
}

Occupancy Union(const Occupancy& a, const Occupancy& b) {
  Occupancy both = a;
  for (size_t n = 0; n < both.free.size(); ++n) both.free[n] |= b.free[n];
  return both;
}

Occupancy Minus(const Occupancy& a, const Occupancy& b) {
  Occupancy rest = a;
  for (size_t n = 0; n < rest.free.size(); ++n) rest.free[n] &= ~b.free[n];
  return rest;
}

bool Touches(const std::vector<Device>& devices, const Occupancy& set) {
  return std::any_of(devices.begin(), devices.end(), [&](const Device& d) {
    return d.node >= 0 && d.node < static_cast<int>(set.free.size()) &&
           (set.free[d.node] >> d.device & 1) != 0;
  });
}

double SecondsLeft(const View& view, const JobView& job) {
  if (job.seconds_left.has_value()) return std::max(0.0, *job.seconds_left);
  const double ran = job.phase == JobPhase::kRunning ? view.now - job.started_at : 0;
  return std::max(0.0, view.policy.unknown_run_seconds - std::max(0.0, ran));
}

Board::Board(const View& view)
    : view_(&view),
      buffer_(view.cluster, view.policy.buffer),
      free_(view.occupancy),
      effort_(kEffort) {
  STRATA_CHECK(view.cluster != nullptr);
  const auto& nodes = cluster().nodes();
  free_.free.resize(nodes.size(), 0);
  soon_.free.resize(nodes.size(), 0);
  not_lent_.free.resize(nodes.size(), 0);
  for (const topology::Node& node : nodes) {
    if (std::find(kinds_.begin(), kinds_.end(), node.kind) == kinds_.end()) {
      kinds_.push_back(node.kind);
    }
  }
  std::sort(kinds_.begin(), kinds_.end());
  kind_of_node_.reserve(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    kind_of_node_.push_back(static_cast<int>(
        std::lower_bound(kinds_.begin(), kinds_.end(), nodes[n].kind) - kinds_.begin()));
    if (!nodes[n].healthy) free_.free[n] = 0;
  }
  for (const JobView& job : view.jobs) {
    if (job.phase == JobPhase::kQueued || !job.held.has_value()) continue;
    Holder holder{&job, view.now + SecondsLeft(view, job), Existing(cluster(), job.held->ranks)};
    Take(holder.devices, free_);
    if (job.phase == JobPhase::kStopping) {
      Put(cluster(), holder.devices, soon_);
      stopping_.push_back(std::move(holder));
    } else {
      for (int node : job.held->spares) spares_.push_back({node, &job});
      holders_.push_back(std::move(holder));
    }
  }
  const auto by_name = [](const Holder& a, const Holder& b) { return a.job->name < b.job->name; };
  std::sort(holders_.begin(), holders_.end(), by_name);
  std::sort(stopping_.begin(), stopping_.end(), by_name);
}

std::vector<Holder>::iterator Board::FindHolder(const JobView& job) {
  const auto at =
      std::lower_bound(holders_.begin(), holders_.end(), job.name,
                       [](const Holder& h, const std::string& name) { return h.job->name < name; });
  return at != holders_.end() && at->job == &job ? at : holders_.end();
}

const Holder* Board::HolderOf(const JobView& job) const {
  const auto at = const_cast<Board*>(this)->FindHolder(job);
  return at == holders_.end() ? nullptr : &*at;
}

KindSet Board::Matching(const Shape& shape) const {
  KindSet set(kinds_.size(), 0);
  for (size_t k = 0; k < kinds_.size(); ++k) {
    set[k] = shape.device == "gpu" ? kinds_[k] != "cpu" : kinds_[k] == shape.device;
  }
  return set;
}

std::vector<int64_t> Board::CountByKind(const Occupancy& set) const {
  std::vector<int64_t> count(kinds_.size(), 0);
  for (size_t n = 0; n < set.free.size(); ++n) {
    count[kind_of_node_[n]] += std::popcount(set.free[n]);
  }
  return count;
}

int64_t Board::MostOf(const std::vector<int64_t>& by_kind, const KindSet& kinds) {
  int64_t most = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k]) most = std::max(most, by_kind[k]);
  }
  return most;
}

Occupancy Board::OfKinds(const Occupancy& room, const KindSet& kinds) const {
  Occupancy masked = room;
  for (size_t n = 0; n < masked.free.size(); ++n) {
    if (!kinds[kind_of_node_[n]]) masked.free[n] = 0;
  }
  return masked;
}

bool Board::LeaveSpares(const JobView& job, Occupancy& room) const {
  bool left = false;
  for (const SpareNode& spare : spares_) {
    if (spare.of == &job || spare.node < 0 || spare.node >= static_cast<int>(room.free.size())) {
      continue;
    }
    left = left || room.free[spare.node] != 0;
    room.free[spare.node] = 0;
  }
  return left;
}

bool Board::MayTakeBuffer(const JobView& job) const {
  return !buffer_.any() || job.phase == JobPhase::kRecovering || IsPreemptible(view_->policy, job);
}

Occupancy Board::For(const JobView& job, const Occupancy& room) const {
  if (!MayTakeBuffer(job)) return buffer_.Without(room);
  return job.phase == JobPhase::kRecovering ? room : Minus(room, not_lent_);
}

BufferNodes Board::BufferNow() const {
  Occupancy lendable;
  lendable.free.resize(cluster().nodes().size(), 0);
  for (const Holder& holder : holders_) {
    if (holder.job->phase == JobPhase::kRunning && IsPreemptible(view_->policy, *holder.job)) {
      Put(cluster(), holder.devices, lendable);
    }
  }
  return buffer_.NodesOf(Union(free_, soon_), lendable);
}

std::optional<Placement> Board::Fit(const JobView& job, const Shape& shape, const Occupancy& room,
                                    const KindSet& kinds) {
  effort_ -= static_cast<int64_t>(room.free.size()) / 8;  // the counting
  if (MostOf(CountByKind(room), kinds) < shape.ranks()) return std::nullopt;
  const Occupancy all = OfKinds(For(job, room), kinds);
  Occupancy unspared = all;
  if (LeaveSpares(job, unspared) && MostOf(CountByKind(unspared), kinds) >= shape.ranks()) {
    effort_ -= static_cast<int64_t>(room.free.size());
    if (auto placement = Place(cluster(), unspared, shape)) return placement;
  }
  effort_ -= static_cast<int64_t>(room.free.size());
  return Place(cluster(), all, shape);
}

void Board::Start(const JobView& job, const Placement& placement, double seconds) {
  const auto holder = FindHolder(job);
  if (holder != holders_.end()) {
    Put(cluster(), holder->devices, soon_);
    holders_.erase(holder);
  }
  std::erase_if(spares_, [&](const SpareNode& spare) { return spare.of == &job; });
  for (int node : placement.spares) spares_.push_back({node, &job});
  Claim(job, placement, seconds);
}

void Board::Claim(const JobView& job, const Placement& placement, double seconds) {
  Take(placement.ranks, free_);
  Take(placement.ranks, soon_);
  const double until = view_->now + seconds;
  const auto holder = FindHolder(job);
  if (holder != holders_.end()) {
    // What is kept for it stays so, besides.
    Occupancy kept;
    kept.free.resize(free_.free.size(), 0);
    Put(cluster(), holder->devices, kept);
    for (const Device& d : placement.ranks) {
      if (!Touches({d}, kept)) holder->devices.push_back(d);
    }
    holder->until = until;
    return;
  }
  const auto at =
      std::lower_bound(holders_.begin(), holders_.end(), job.name,
                       [](const Holder& h, const std::string& name) { return h.job->name < name; });
  holders_.insert(at, {&job, until, placement.ranks});
}

void Board::Stop(const JobView& job) {
  const auto holder = FindHolder(job);
  STRATA_CHECK(holder != holders_.end());
  Put(cluster(), holder->devices, soon_);
  std::erase_if(spares_, [&](const SpareNode& spare) { return spare.of == &job; });
  stopping_.push_back(std::move(*holder));
  holders_.erase(holder);
}

}  // namespace strata::scheduler
