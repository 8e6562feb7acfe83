// A collective of the engine's owner, beside those of programs.
#ifndef STRATA_WORKER_ENGINE_COLLECTIVE_REQUEST_H_
#define STRATA_WORKER_ENGINE_COLLECTIVE_REQUEST_H_

#include <cstdint>
#include <optional>

#include "collectives/communicator.h"
#include "worker/engine/run_state.h"

namespace strata::worker {

// A collective of the owner's own, on its way.
struct CollectiveRequest {
  collectives::Communicator* communicator;
  RunState* state;
  const collectives::Operation* operation;
  std::optional<collectives::OperationId> id;

  static bool Poll(void* self, int64_t) {
    auto& request = *static_cast<CollectiveRequest*>(self);
    if (!request.id.has_value()) {
      const auto posted = request.communicator->Post(*request.operation);
      if (!posted.ok()) request.state->Fail(posted.status());
      if (!posted.ok()) return true;
      request.id = *posted;
      return false;
    }
    const absl::StatusOr<bool> done = request.communicator->Test(*request.id);
    if (!done.ok()) request.state->Fail(done.status());
    return !done.ok() || *done;
  }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_COLLECTIVE_REQUEST_H_
