// A block of threads on the stand-in's one processor: shared memory, warps, barriers, and the order
// in which warps run. A grid's blocks run one after the other.
#ifndef STRATA_DEVICE_STANDIN_BLOCK_H_
#define STRATA_DEVICE_STANDIN_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/random.h"
#include "device/standin/warp.h"

namespace strata::standin {

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t Count() const { return uint64_t{x} * y * z; }
};

// A kernel with what it was launched with.
struct Launch {
  const Program* program;
  Extent grid, block;
  uint64_t dynamic_shared_bytes;
  std::vector<std::byte> parameters;
};

// Clocks that writers left at atomic places, by address.
using Released = absl::flat_hash_map<const std::byte*, std::shared_ptr<const SparseClock>>;

class Block {
 public:
  Block(const Launch& launch, Machine& machine, OperationId operation, common::Random& random);

  // Runs block `index` of the grid to its end.
  void Run(uint32_t index);
  // What the kernel did is no longer defined: its threads stop.
  void Abort() { aborted_ = true; }
  bool aborted() const { return aborted_; }

  // For warps.
  const Launch& launch() const { return launch_; }
  Machine& machine() { return machine_; }
  OperationId operation() const { return operation_; }
  int device() const { return device_; }
  uint32_t index() const { return index_; }
  int thread_count() const { return thread_count_; }
  Released& released() { return released_; }
  // Lanes come to bar.sync, bar.arrive or bar.red; those that must wait are returned.
  uint32_t Arrive(Warp& warp, const Instruction& in, uint32_t lanes);
  // Shared memory at an offset of its window: null outside of any variable.
  Place FindShared(uint64_t offset, uint64_t bytes);

 private:
  struct Barrier {
    const Instruction* first = nullptr;
    int expected = 0, arrived = 0;
    std::array<uint32_t, kLanes> waiting{};                // lanes by warp
    std::array<bool, kLanes> takes_part{};                 // warps
    std::array<const Instruction*, kLanes> instruction{};  // by warp
    int votes = 0;
  };

  bool RunWarps();
  void Release(Barrier& barrier);
  bool BreakDeadlock();

  const Launch& launch_;
  Machine& machine_;
  OperationId operation_;
  int device_;
  common::Random& random_;
  int thread_count_;
  uint32_t index_ = 0;
  bool aborted_ = false;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::array<Barrier, 16> barriers_;
  std::vector<std::byte> shared_;
  Shadow shared_shadow_;
  Released released_;  // kept over the blocks of the grid
};

// Runs all blocks of a launch.
void RunGrid(const Launch& launch, Machine& machine, OperationId operation);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_BLOCK_H_
