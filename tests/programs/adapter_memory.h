// Memory of adapter training of an 8B model, as the memory reader predicts it and as arithmetic
// has it: what ./dev bench program prints and adapter_memory_test.cc compares.
#ifndef STRATA_TESTS_PROGRAMS_ADAPTER_MEMORY_H_
#define STRATA_TESTS_PROGRAMS_ADAPTER_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "program/ir/types.h"
#include "program/readers/memory.h"

namespace strata::testing {

struct AdapterMemory {
  int64_t quantised = 0, frozen = 0,
          trained = 0;  // weights: quantised, other frozen ones, adapters
  double each = 0;      // bytes of a quantised weight
  program::TierMemory memory;

  int64_t weights_and_state() const;  // bytes of parameters, gradients and optimizer
  // 4 per other weight in f32, 16 per trained one: weight, gradient and two moments.
  double expected() const {
    return each * static_cast<double>(quantised) + 4 * static_cast<double>(frozen) +
           16 * static_cast<double>(trained);
  }
};

// Llama 3 8B with adapters of rank 16 on all linear layers, one sequence of 2,048, full recompute,
// one rank. `quantised`: what the blocks' matrices are kept in.
absl::StatusOr<AdapterMemory> MemoryOfAdapters8B(std::optional<program::DType> quantised);

}  // namespace strata::testing

#endif  // STRATA_TESTS_PROGRAMS_ADAPTER_MEMORY_H_
