// Streams of callers who may not see everything: they end when the policy changes, so that nobody
// goes on hearing what he may not hear any more. Their clients come back from where they were.
#ifndef STRATA_CONTROLLER_SERVICE_CALLS_RESTRICTED_STREAMS_H_
#define STRATA_CONTROLLER_SERVICE_CALLS_RESTRICTED_STREAMS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "controller/service/reactor/reactor.h"

namespace strata::controller {

// Lives on the reactor's thread.
class RestrictedStreams final : public Reactor::Listener {
 public:
  // `end` ends the stream, and returns false when there is none any more; OK asks only that.
  using End = std::function<bool(const absl::Status&)>;

  void Add(End end);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnLoad(const Core& core) override;

 private:
  void EndAll();

  std::vector<End> streams_;
  size_t prune_at_ = 64;  // streams
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_RESTRICTED_STREAMS_H_
