// The host memory of DeepSpeed's ZeRO-Infinity with everything on SSD, object by object as its
// source allocates it (deepspeedai/DeepSpeed at edaa722, 2026-08-22: runtime/zero/stage3.py,
// runtime/swap_tensor/), to be held against Strata's.
#ifndef STRATA_PLANNER_FIT_ZERO_INFINITY_H_
#define STRATA_PLANNER_FIT_ZERO_INFINITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_spec.h"

namespace strata::planner {

struct ZeroInfinityOptions {
  int64_t ranks = 1;                           // N / ranks parameters each
  bool fp16 = false;                           // scanned for overflow; bf16 is not, with ZeRO-3
  int64_t gradient_bytes = 2;                  // grad_accum_dtype: the model's type, or 4 for fp32
  int64_t optimizer_buffers = 4;               // buffer_count of offload_optimizer
  int64_t parameter_buffers = 5;               // buffer_count of offload_param
  int64_t most_in_cpu = 1'000'000'000;         // max_in_cpu, elements
  int64_t sub_group_elements = 1'000'000'000;  // sub_group_size
  bool pinned_by_torch = true;                 // sizes are rounded to powers of two
};

// Elements that the formulas ask for.
struct ZeroInfinityModel {
  int64_t parameters = 0;
  int64_t largest_tensor = 0;
  // Of the sub-groups that parameters are gathered into in the model's order: one ends with the
  // parameter that reaches sub_group_elements.
  int64_t largest_sub_group = 0;
};
absl::StatusOr<ZeroInfinityModel> ZeroInfinityModelOf(const model::ModelSpec& spec,
                                                      const ZeroInfinityOptions& options);

struct HostItem {
  std::string what;
  std::string formula;
  int64_t exact_bytes = 0;     // as asked for
  int64_t reserved_bytes = 0;  // as allocated
};

// Of one rank, without offloaded activations and without what the process itself takes.
std::vector<HostItem> ZeroInfinityHost(const ZeroInfinityModel& model,
                                       const ZeroInfinityOptions& options);
int64_t ReservedBytes(const std::vector<HostItem>& items);

// What torch's caching host allocator reserves for a request: the next power of two.
int64_t PinnedBytes(int64_t bytes);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_ZERO_INFINITY_H_
