// Streams of callers who may not see everything: they end when the policy changes, and when what
// their caller showed is over, so that nobody goes on hearing what he may not hear any more. Their
// clients come back from where they were.
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

  // `until`: Unix time in seconds, that of Identity::end.
  void Add(End end, double until);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnLoad(const Core& core) override;

 private:
  struct Stream {
    End end;
    double until;
  };
  void EndAll();

  std::vector<Stream> streams_;
  size_t prune_at_ = 64;  // streams
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_RESTRICTED_STREAMS_H_
