// A warp: 32 lanes with registers and a place in the program each. Lanes at the same place execute
// together; those that went different ways are run one group after the other, the one that is
// furthest behind first, so that they meet again.
#ifndef STRATA_DEVICE_STANDIN_WARP_H_
#define STRATA_DEVICE_STANDIN_WARP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/standin/clocks.h"
#include "device/standin/machine.h"
#include "device/standin/program.h"

namespace strata::standin {

class Block;

// Where a lane's access goes; `data` is null when it goes nowhere, which has been reported.
struct Place {
  std::byte* data = nullptr;
  Shadow* shadow = nullptr;  // null: memory that only the lane sees
  uint64_t offset = 0, origin = 0;
  const std::string* name = nullptr;
};

// cp.async of one lane.
struct AsyncCopy {
  Place to;
  const std::byte* from = nullptr;  // null: zeros only
  uint32_t bytes = 0, zeros = 0;    // zeros follow the bytes
  Site site = 0;
};

class Warp {
 public:
  Warp(Block& block, int index);

  // For a new block; `live`: lanes that exist.
  void Start(uint32_t live);
  // Runs until no lane can go on, or for a while. `ahead`: lanes that run first, as far as they
  // can.
  void Run(int64_t slice, uint32_t ahead);
  void Stop() { live_ = 0; }
  // Lanes at a barrier go on.
  void PassBarrier(uint32_t lanes) { at_barrier_ &= ~lanes; }

  uint32_t live() const { return live_; }
  uint32_t Ready() const { return live_ & ~meeting_ & ~at_barrier_; }
  uint32_t meeting() const { return meeting_; }
  // What a lane waits at.
  const Instruction* WaitsAt(int lane) const { return &program_->code[pc_[lane] - 1]; }

  // For handlers.
  uint64_t* Row(int row) { return registers_.data() + static_cast<size_t>(row) * kLanes; }
  Block& block() { return block_; }
  Machine& machine() { return machine_; }
  WarpClock& clock() { return clock_; }
  uint32_t ThreadOf(int lane) const { return static_cast<uint32_t>(index_ * kLanes + lane); }
  int index() const { return index_; }
  Stamp StampOf(int lane, Site site) const;
  void Report(FindingKind kind, const Instruction& in, int lane, const std::string& text);

  // Finds `bytes` at an address and judges bounds and alignment.
  Place Resolve(const Instruction& in, Space space, uint64_t address, uint64_t bytes, int lane);
  // Tells the checker of an access.
  void Touch(const Instruction& in, const Place& place, uint64_t bytes, Checker::Access access,
             bool strong, int lane);
  // What earlier accesses of a lane release or acquire through an atomic place.
  void Fence(int lane);
  void Publish(const Place& place, int lane, bool release);
  void Observe(const Place& place, int lane, bool acquire);

  // cp.async: the open group's copies, and those committed. `keep`: groups that may stay
  // unfinished.
  void StartCopy(int lane, AsyncCopy copy) { copies_[lane].back().push_back(copy); }
  void CommitCopies(int lane) { copies_[lane].emplace_back(); }
  void FinishCopies(int lane, size_t keep);

 private:
  void RunGroup(int32_t pc, uint32_t lanes, int32_t others, int64_t* budget);
  bool Step(const Instruction& in, uint32_t* lanes, int32_t* pc);
  void Meet(const Instruction& in, uint32_t lanes);
  void TryMeet(const Instruction& in, uint32_t mask);
  void Exit(uint32_t lanes);
  void SetPlace(uint32_t lanes, int32_t pc);
  Place Nowhere(const Instruction& in, int lane, uint64_t bytes, const std::string& where);

  Block& block_;
  Machine& machine_;
  const Program* program_;
  int index_;
  uint32_t live_ = 0, meeting_ = 0, at_barrier_ = 0;
  std::array<int32_t, kLanes> pc_{};
  std::array<uint32_t, kLanes> meet_mask_{};
  std::array<const Instruction*, kLanes> meet_{};
  std::vector<uint64_t> registers_;
  std::vector<std::byte> local_;
  std::array<std::vector<std::vector<AsyncCopy>>, kLanes> copies_;
  WarpClock clock_;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_WARP_H_
