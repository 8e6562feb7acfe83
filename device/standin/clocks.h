// What happens before what. Operations on streams are ordered by vector clocks over streams; the
// threads of one kernel by barriers, __syncwarp, and releases and acquires through atomics.
//
// A thread's place in time is its warp's counter, which grows at each of those. Everything that a
// thread knows to be before it is: of other warps of its block, up to which time (learnt at
// barriers); of the lanes of its own warp, likewise (also at __syncwarp); of threads anywhere in
// the grid, a sparse list (learnt from atomics).
#ifndef STRATA_DEVICE_STANDIN_CLOCKS_H_
#define STRATA_DEVICE_STANDIN_CLOCKS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "device/standin/findings.h"

namespace strata::standin {

constexpr int kLanes = 32;

using OperationId = uint32_t;
constexpr OperationId kNever = 0;   // no operation
constexpr OperationId kLoaded = 1;  // before all others: what a module brings along

// Streams' places: the count of what was issued to each that is ordered before.
using StreamClock = std::vector<uint64_t>;
void Merge(StreamClock& into, const StreamClock& from);

class Operations {
 public:
  // The operation at `clock[stream]` of its stream, about to run on a device.
  OperationId Add(std::string name, int stream, StreamClock clock, int device = 0);
  // All operations of a device so far are ordered before all of it that follow. What is so for each
  // device, is forgotten, and before all that follow.
  void Settle(int device = 0);
  bool Ordered(OperationId before, OperationId now) const;
  const std::string& NameOf(OperationId id) const;
  int DeviceOf(OperationId id) const { return id < first_ ? 0 : operations_[id - first_].device; }

 private:
  struct Operation {
    std::string name;
    int stream;
    StreamClock clock;
    int device;
  };
  OperationId first_ = kLoaded + 1;  // the id of operations_[0]; those below are forgotten
  std::deque<Operation> operations_;
  std::map<int, OperationId> settled_;  // by device: up to which operation
};

// An access: who, when, where in the source.
struct Stamp {
  enum Flag : uint32_t { kAtomic = 1, kWrite = 2, kInFlight = 4, kUnwritten = 8 };
  OperationId operation = kNever;
  uint32_t block = 0;
  uint32_t time = 0;
  uint32_t thread : 10 = 0, flags : 4 = 0, site : 18 = 0;

  bool Has(Flag flag) const { return (flags & flag) != 0; }
};

// Times of threads and warps of a grid, of which few are known.
class SparseClock {
 public:
  void LearnThread(uint32_t block, uint32_t thread, uint32_t time) {
    Learn(Key(block, thread), time);
  }
  void LearnWarp(uint32_t block, uint32_t warp, uint32_t time) {
    Learn(Key(block, kWarps + warp), time);
  }
  void Merge(const SparseClock& other) {
    for (const auto& [key, time] : other.times_) Learn(key, time);
  }
  bool Knows(const Stamp& stamp) const {
    return Reaches(Key(stamp.block, stamp.thread), stamp.time) ||
           Reaches(Key(stamp.block, kWarps + stamp.thread / kLanes), stamp.time);
  }

 private:
  static constexpr uint64_t kWarps = 1024;
  static uint64_t Key(uint64_t block, uint64_t who) { return block << 16 | who; }
  void Learn(uint64_t key, uint32_t time) {
    uint32_t& known = times_[key];
    if (known < time) known = time;
  }
  bool Reaches(uint64_t key, uint32_t time) const {
    const auto found = times_.find(key);
    return found != times_.end() && found->second >= time;
  }
  absl::flat_hash_map<uint64_t, uint32_t> times_;
};

// What the lanes of one warp know.
struct WarpClock {
  uint32_t time = 1;
  std::array<uint32_t, kLanes> seen_warps{};
  std::array<std::array<uint32_t, kLanes>, kLanes> seen_lanes{};
  // Of each lane: learnt from atomics and in force; read by relaxed ones, in force from the next
  // fence on; what the lane's last fence lets later atomics release. Null: nothing.
  std::array<std::shared_ptr<const SparseClock>, kLanes> acquired, read, released;

  // Lanes of `mask` meet at a __syncwarp.
  void SyncLanes(uint32_t mask);
  // Everything before now of `lane`, which is thread `thread` of `block`.
  std::shared_ptr<const SparseClock> Everything(uint32_t block, uint32_t thread) const;
};

std::shared_ptr<const SparseClock> Union(const std::shared_ptr<const SparseClock>& a,
                                         const std::shared_ptr<const SparseClock>& b);
// The warps of `warps` (by index in their block) meet at a barrier.
void SyncWarps(const std::vector<std::pair<int, WarpClock*>>& warps);

// Who accesses memory. Copies have no warp.
struct Accessor {
  Stamp stamp;
  const WarpClock* warp = nullptr;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_CLOCKS_H_
