// What this machine can do at most, measured: the yardstick of the kernels' benchmark and of
// hardware profiles.
#ifndef STRATA_KERNELS_MACHINE_LIMITS_H_
#define STRATA_KERNELS_MACHINE_LIMITS_H_

#include "common/clock.h"
#include "device/thread_pool.h"

namespace strata::kernels {

struct MachineLimits {
  // Fused multiply-adds (two operations each) on registers only, f32, with the widest vectors.
  double core_flops_per_second = 0;  // one thread
  double flops_per_second = 0;       // all threads of the pool
  // Sequential access to arrays far larger than the caches, all threads. Copies count both ways.
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double copy_bytes_per_second = 0;
};

// Takes about a second and allocates 256 MiB; the fastest of several attempts each, since other
// load can only slow it down.
MachineLimits MeasureMachineLimits(device::ThreadPool* pool, const common::Clock& clock);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_MACHINE_LIMITS_H_
