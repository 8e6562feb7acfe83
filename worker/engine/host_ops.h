// What a step asks of the process around it.
#ifndef STRATA_WORKER_ENGINE_HOST_OPS_H_
#define STRATA_WORKER_ENGINE_HOST_OPS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "program/ir/types.h"

namespace strata::worker {

// What a load fills: rows [samples, sequence], one after the other.
struct BatchRows {
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;    // < 0: not trained on
  int32_t* positions = nullptr;  // of each token inside its document; null: nobody reads them
  int64_t samples = 0, sequence = 0;
};

// Given by the trainer. An error ends the step and the engine. Allocating nothing is up to the
// implementation.
class HostOps {
 public:
  virtual ~HostOps() = default;

  // Calls come in the program's order, on the thread that called RunStep for the stream kCompute,
  // on that stream's lane for kHost; never two loads at once. The engine checks the range of what
  // it got.
  virtual absl::Status LoadBatch(const BatchRows& rows) = 0;

  // Fills the host-written part of the scalar block: `scalars[static_cast<int>(Scalar::…)]`. As
  // LoadBatch.
  virtual absl::Status LoadScalars(double* scalars) = 0;

  // A signal instruction was reached; may block, and then must return when the engine is
  // cancelled. On the thread that called RunStep for the stream kCompute, on the stream's lane for
  // others.
  virtual absl::Status Signal(program::Purpose purpose, const std::string& label) = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_HOST_OPS_H_
