// Who follows what an engine hands to a device with queues, to prove that its order is right.
#ifndef STRATA_WORKER_ENGINE_ISSUE_OBSERVER_H_
#define STRATA_WORKER_ENGINE_ISSUE_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace strata::worker {

// Memory that an action uses.
struct BoundAccess {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  bool writes = false;
};

// An action of a program in a step. `variant`: of the places of versioned slots
// (BoundProgram::variants).
struct IssuedAction {
  int program = 0, action = 0;
  int64_t variant = 0, step = 0;
};

class IssueObserver {
 public:
  virtual ~IssueObserver() = default;
  // When a program is bound, of each variant: "instruction 12 (forward block 3), op 4 (matmul)",
  // and all that it uses, the scalar that decides it among it.
  virtual void Bound(const IssuedAction& what, std::string description,
                     std::vector<BoundAccess> accesses) = 0;
  // On the issuing thread: the stream, a queue or that of a lane, was handed what the action waits
  // for. What it is handed until Issued is the action, or a graph that ends with it.
  virtual void Issue(const IssuedAction& what, device::Stream& stream) = 0;
  virtual void Issued() = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ISSUE_OBSERVER_H_
