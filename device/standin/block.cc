#include "device/standin/block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "device/standin/lane_math.h"

namespace strata::standin {
namespace {

constexpr int64_t kSlice = 1 << 16;  // instructions of a warp before the next has its turn

uint64_t SharedExtent(const Launch& launch) {
  return launch.program->shared.back().offset + launch.dynamic_shared_bytes;
}

}  // namespace

Block::Block(const Launch& launch, Machine& machine, OperationId operation, common::Random& random)
    : launch_(launch),
      machine_(machine),
      operation_(operation),
      device_(machine.operations.DeviceOf(operation)),
      random_(random),
      thread_count_(static_cast<int>(launch.block.Count())),
      shared_(SharedExtent(launch)),
      shared_shadow_(SharedExtent(launch)) {
  for (int first = 0; first < thread_count_; first += kLanes) {
    warps_.push_back(std::make_unique<Warp>(*this, first / kLanes));
  }
}

void Block::Run(uint32_t index) {
  index_ = index;
  std::fill(shared_.begin(), shared_.end(), std::byte{0xff});  // NaN
  shared_shadow_.Clear();
  // Places in shared memory are other ones in another block.
  absl::erase_if(released_, [&](const auto& entry) {
    return entry.first >= shared_.data() && entry.first < shared_.data() + shared_.size();
  });
  barriers_.fill({});
  for (size_t i = 0; i < warps_.size(); ++i) {
    const int lanes = std::min<int>(kLanes, thread_count_ - static_cast<int>(i) * kLanes);
    warps_[i]->Start(lanes == kLanes ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1);
  }
  while (!aborted_ && RunWarps() && BreakDeadlock()) {
  }
}

// Until no warp can go on; false: as all threads are done, or the block does not end. In random
// order one warp runs as far as it can while others stand: the worst that a device may do.
bool Block::RunWarps() {
  const bool random = machine_.options.thread_order == ThreadOrder::kRandom;
  const bool descending = machine_.options.thread_order == ThreadOrder::kDescending;
  int64_t ran = 0;
  for (;;) {
    std::vector<Warp*> ready;
    for (const auto& warp : warps_) {
      if (warp->Ready() != 0) ready.push_back(warp.get());
    }
    if (ready.empty() || aborted_) {
      return std::any_of(warps_.begin(), warps_.end(),
                         [](const auto& w) { return w->live() != 0; });
    }
    if (descending) std::reverse(ready.begin(), ready.end());
    if (random) std::swap(ready[0], ready[random_.Below(ready.size())]);
    for (Warp* const warp : ready) {
      uint32_t ahead = ~uint32_t{0};
      if (random && random_.Chance(0.25)) ahead = static_cast<uint32_t>(random_.Next());
      warp->Run(kSlice, ahead);
      ran += kSlice;
      if (random) break;  // draw again
    }
    if (ran > machine_.options.instruction_limit * 64) {
      machine_.checker.Report(FindingKind::kEndless, ready[0]->StampOf(0, 0),
                              "a block that does not come to an end, run");
      aborted_ = true;
      return false;
    }
  }
}

uint32_t Block::Arrive(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int lane = std::countr_zero(lanes);
  // Rows: [result,] barrier [, threads] [, predicate]; code tells which there are.
  const bool reduces = in.code >= 10, arrives = in.code == 1;
  size_t at = reduces ? 1 : 0;
  const int id = static_cast<int>(warp.Row(in.rows[at++])[lane] & 15);
  const size_t left = in.rows.size() - at - (reduces ? 1 : 0);
  const int expected = left > 0 ? static_cast<int>(warp.Row(in.rows[at])[lane]) : thread_count_;
  Barrier& barrier = barriers_[id];
  if (barrier.first == nullptr) {
    barrier.first = &in;
    barrier.expected = expected;
  } else if (barrier.expected != expected ||
             (barrier.first != &in && in.aligned && barrier.first->aligned && left == 0)) {
    warp.Report(FindingKind::kDivergentBarrier, in, lane,
                "threads of a block wait at different barriers, the others at " +
                    machine_.findings.TextOf(barrier.first->site) + ", this one waited for");
  }
  barrier.takes_part[warp.index()] = true;
  barrier.instruction[warp.index()] = &in;
  if (!arrives) barrier.waiting[warp.index()] |= lanes;
  barrier.arrived += std::popcount(lanes);
  if (reduces) {
    const uint64_t* const predicate = warp.Row(in.rows.back());
    ForEachLane(lanes, [&](int l) { barrier.votes += predicate[l] & 1; });
  }
  const uint32_t wait = arrives ? 0 : lanes;
  if (barrier.arrived >= barrier.expected) Release(barrier);
  return wait;
}

void Block::Release(Barrier& barrier) {
  const Barrier done = std::exchange(barrier, {});
  std::vector<std::pair<int, WarpClock*>> clocks;
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (done.takes_part[i]) clocks.emplace_back(static_cast<int>(i), &warps_[i]->clock());
  }
  SyncWarps(clocks);
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (done.waiting[i] == 0) continue;
    const Instruction& in = *done.instruction[i];
    if (in.code >= 10) {
      const uint64_t result = in.code == 10   ? done.votes
                              : in.code == 11 ? done.votes == done.arrived
                                              : done.votes != 0;
      uint64_t* const row = warps_[i]->Row(in.rows[0]);
      ForEachLane(done.waiting[i], [&](int lane) { row[lane] = result; });
    }
    warps_[i]->PassBarrier(done.waiting[i]);
  }
}

// Nobody can go on. Threads that are gone are not waited for, though they should have come; all
// else is the end. False: the block stops.
bool Block::BreakDeadlock() {
  int live = 0;
  const Instruction* stuck = nullptr;
  Warp* stuck_warp = nullptr;
  for (const auto& warp : warps_) {
    live += std::popcount(warp->live());
    if (warp->meeting() != 0) {
      stuck_warp = warp.get();
      stuck = warp->WaitsAt(std::countr_zero(warp->meeting()));
    }
  }
  for (Barrier& barrier : barriers_) {
    if (barrier.first == nullptr) continue;
    for (size_t i = 0; i < warps_.size(); ++i) {
      if (barrier.waiting[i] == 0) continue;
      if (barrier.arrived == live && live < thread_count_ && stuck == nullptr) {
        warps_[i]->Report(FindingKind::kDivergentBarrier, *barrier.instruction[i],
                          std::countr_zero(barrier.waiting[i]),
                          std::to_string(thread_count_ - live) +
                              " threads have left before a barrier that is waited for");
        Release(barrier);
        return true;
      }
      warps_[i]->Report(FindingKind::kDeadlock, *barrier.instruction[i],
                        std::countr_zero(barrier.waiting[i]),
                        "others never come to a barrier that is waited for");
      break;
    }
  }
  if (stuck != nullptr) {
    stuck_warp->Report(FindingKind::kDeadlock, *stuck, std::countr_zero(stuck_warp->meeting()),
                       "lanes of the warp never come to `" + stuck->text + "`, waited at");
  }
  aborted_ = true;
  return false;
}

Place Block::FindShared(uint64_t offset, uint64_t bytes) {
  const SharedVariable* last = &launch_.program->shared.front();
  for (const SharedVariable& variable : launch_.program->shared) {
    if (offset >= variable.offset) last = &variable;
  }
  const bool dynamic = last == &launch_.program->shared.back();
  const uint64_t size = dynamic ? launch_.dynamic_shared_bytes : last->bytes;
  Place place;
  place.origin = last->offset;
  place.name = &last->name;
  if (offset < last->offset || offset + bytes > last->offset + size) return place;
  place.data = shared_.data() + offset;
  place.shadow = &shared_shadow_;
  place.offset = offset;
  return place;
}

void RunGrid(const Launch& launch, Machine& machine, OperationId operation) {
  common::Random random(machine.options.seed, operation);
  std::vector<uint32_t> order(launch.grid.Count());
  std::iota(order.begin(), order.end(), 0);
  if (machine.options.thread_order == ThreadOrder::kDescending) {
    std::reverse(order.begin(), order.end());
  }
  if (machine.options.thread_order == ThreadOrder::kRandom) random.Shuffle(order);
  Block block(launch, machine, operation, random);
  for (const uint32_t index : order) {
    block.Run(index);
    if (block.aborted()) return;
  }
}

}  // namespace strata::standin
