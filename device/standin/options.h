// How the stand-in behaves: in which order it runs what may run in any, and what it looks for.
#ifndef STRATA_DEVICE_STANDIN_OPTIONS_H_
#define STRATA_DEVICE_STANDIN_OPTIONS_H_

#include <cstdint>

namespace strata::standin {

// When queued work is done. Nothing runs before the host waits for something.
enum class StreamOrder : uint8_t {
  kProgram,  // what a lucky device does: everything as it was issued
  kLatest,   // only what the host waits for, each operation as late as can be
  kRandom,   // any legal order, by seed
};

// In which order warps of a block, and blocks of a grid, run.
enum class ThreadOrder : uint8_t {
  kAscending,
  kDescending,
  kRandom,  // by seed; warps, and lanes of a warp, run ahead of others as far as they can
};

struct Options {
  StreamOrder stream_order = StreamOrder::kRandom;
  ThreadOrder thread_order = ThreadOrder::kRandom;
  uint64_t seed = 1;
  bool check = true;  // accesses to memory; without, kernels run faster
  // A finding is printed, and every call from then on returns cudaErrorAssert: for programs that
  // are no tests.
  bool fail_at_finding = false;
  int device_count = 1;
  // NCCL's ranks are processes of one machine, not threads of this one.
  bool ranks_are_processes = false;
  int64_t device_bytes = int64_t{1} << 30;  // of each
  // Whether devices have managed memory that the host may touch while they work.
  bool managed_memory = true;
  // Of managed memory: a page that is touched on the other side comes by itself, and is counted.
  // Without, it is a finding, too.
  bool allow_page_faults = false;
  int64_t instruction_limit = 50'000'000;  // of a block, counted by warp: more is a finding
  // Of a host thread that waits for what other threads' devices must do: when nothing has happened
  // for so long, it is a deadlock.
  double patience_seconds = 30;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_OPTIONS_H_
