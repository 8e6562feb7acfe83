#include "device/standin/clocks.h"

#include <algorithm>
#include <utility>

namespace strata::standin {

void Merge(StreamClock& into, const StreamClock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

OperationId Operations::Add(std::string name, int stream, StreamClock clock, int device) {
  settled_.try_emplace(device, first_);
  operations_.push_back({std::move(name), stream, std::move(clock), device});
  return first_ + static_cast<OperationId>(operations_.size()) - 1;
}

void Operations::Settle(int device) {
  settled_[device] = first_ + static_cast<OperationId>(operations_.size());
  OperationId all = settled_[device];
  for (const auto& [other, settled] : settled_) all = std::min(all, settled);
  for (; first_ < all; ++first_) operations_.pop_front();
}

bool Operations::Ordered(OperationId before, OperationId now) const {
  if (before < first_) return true;
  const Operation& earlier = operations_[before - first_];
  const Operation& later = operations_[now - first_];
  const size_t stream = earlier.stream;
  return stream < later.clock.size() && later.clock[stream] >= earlier.clock[stream];
}

const std::string& Operations::NameOf(OperationId id) const {
  static const std::string* const earlier = new std::string("an earlier operation");
  return id < first_ ? *earlier : operations_[id - first_].name;
}

std::shared_ptr<const SparseClock> Union(const std::shared_ptr<const SparseClock>& a,
                                         const std::shared_ptr<const SparseClock>& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto both = std::make_shared<SparseClock>(*a);
  both->Merge(*b);
  return both;
}

void WarpClock::SyncLanes(uint32_t mask) {
  std::array<uint32_t, kLanes> seen{};
  std::shared_ptr<const SparseClock> known;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (int other = 0; other < kLanes; ++other) {
      seen[other] = std::max(seen[other], seen_lanes[lane][other]);
    }
    known = Union(known, acquired[lane]);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) seen[lane] = time;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    seen_lanes[lane] = seen;
    acquired[lane] = known;
  }
  ++time;
}

std::shared_ptr<const SparseClock> WarpClock::Everything(uint32_t block, uint32_t thread) const {
  const uint32_t lane = thread % kLanes, warp = thread / kLanes;
  auto all = acquired[lane] == nullptr ? std::make_shared<SparseClock>()
                                       : std::make_shared<SparseClock>(*acquired[lane]);
  for (uint32_t other = 0; other < kLanes; ++other) {
    if (seen_warps[other] != 0) all->LearnWarp(block, other, seen_warps[other]);
    const uint32_t known = other == lane ? time : seen_lanes[lane][other];
    if (known != 0) all->LearnThread(block, warp * kLanes + other, known);
  }
  return all;
}

void SyncWarps(const std::vector<std::pair<int, WarpClock*>>& warps) {
  std::array<uint32_t, kLanes> seen{};
  std::shared_ptr<const SparseClock> known;
  for (const auto& [index, clock] : warps) {
    for (int other = 0; other < kLanes; ++other) {
      seen[other] = std::max(seen[other], clock->seen_warps[other]);
    }
    for (const auto& acquired : clock->acquired) known = Union(known, acquired);
  }
  for (const auto& [index, clock] : warps) seen[index] = clock->time;
  for (const auto& [index, clock] : warps) {
    clock->seen_warps = seen;
    for (auto& lane : clock->seen_lanes) lane.fill(clock->time);
    clock->acquired.fill(known);
    ++clock->time;
  }
}

}  // namespace strata::standin
