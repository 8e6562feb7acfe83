// How operations that are no kernels reach memory: copies, fills, libraries' stand-ins.
#ifndef STRATA_DEVICE_STANDIN_ACCESS_H_
#define STRATA_DEVICE_STANDIN_ACCESS_H_

#include <cstddef>
#include <cstdint>

#include "device/standin/machine.h"

namespace strata::standin {

Accessor AccessorOf(OperationId id);

// A range as an operation finds it: device memory or known host memory, judged by the checker, or
// pageable memory. Null: out of bounds, reported.
std::byte* Reach(Machine& machine, OperationId id, const void* pointer, uint64_t bytes, bool write);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_ACCESS_H_
