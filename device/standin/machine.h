// What all parts of the stand-in share: options, findings, operations, memory, the checker.
#ifndef STRATA_DEVICE_STANDIN_MACHINE_H_
#define STRATA_DEVICE_STANDIN_MACHINE_H_

#include "device/standin/clocks.h"
#include "device/standin/device_memory.h"
#include "device/standin/findings.h"
#include "device/standin/options.h"
#include "device/standin/shadow.h"

namespace strata::standin {

struct Machine {
  explicit Machine(const Options& wanted)
      : options(wanted), checker(operations, findings), memory(wanted.device_bytes) {}

  Options options;
  Findings findings;
  Operations operations;
  Checker checker;
  DeviceMemory memory;
  int64_t instructions = 0;  // executed by warps
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_MACHINE_H_
