// Managed memory: who may use a page where it is, and what brings it elsewhere.
//
// Residency is judged as memory is: what moves a page writes it, what uses it reads it, in a shadow
// of a byte for each page. So a prefetch that nothing orders before a kernel is a race in every
// order of streams, and one that is left out a page fault.
#ifndef STRATA_DEVICE_STANDIN_MANAGED_H_
#define STRATA_DEVICE_STANDIN_MANAGED_H_

#include <cstdint>

#include "device/standin/machine.h"

namespace strata::standin {

// An operation of a device uses bytes of a managed region; of others: nothing happens.
void UsePages(Machine& machine, Region& region, uint64_t address, uint64_t bytes, int device,
              const Accessor& who);
// A prefetch moves the pages that these bytes lie on to a device, or to kOnHost.
void MovePages(Machine& machine, Region& region, uint64_t address, uint64_t bytes, int to,
               const Accessor& who);
// What the host touched on devices since the last call: those pages are back.
void JudgeHostFaults(Machine& machine);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_MANAGED_H_
