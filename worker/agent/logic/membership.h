// Whose controller an agent hears: that of its own cluster, of the newest life of that cluster's
// store, and of its highest term. Pure: what it decides is kept and carried out by its owner.
#ifndef STRATA_WORKER_AGENT_LOGIC_MEMBERSHIP_H_
#define STRATA_WORKER_AGENT_LOGIC_MEMBERSHIP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/agent_files.pb.h"

namespace strata::worker {

// Used by one thread. A term is taken over from a Welcome alone, and only when its cluster is ours:
// what speaks on the controller's port and is none cannot lose us the true one.
class Membership {
 public:
  struct Verdict {
    v1::AgentMembership membership;  // to be kept durably, then given to Take
    bool changed = false;            // it differs from what is kept
    // The store was restored, or the cluster is another: epochs seen before say nothing any more.
    bool restored = false;
  };

  // `kept`: of this agent's earlier life; empty: none. `rejoin`: may go over to another cluster
  // while it holds nothing.
  Membership(v1::AgentMembership kept, bool rejoin) : kept_(std::move(kept)), rejoin_(rejoin) {}

  const v1::AgentMembership& kept() const { return kept_; }

  // A session has begun: nothing was said in it yet.
  void BeginSession() { welcomed_term_ = 0; }
  // FailedPrecondition: not to be heard, and why. `holds`: trainers of an epoch are here.
  absl::StatusOr<Verdict> Judge(const v1::Welcome& welcome, int64_t term, bool holds) const;
  void Take(const v1::AgentMembership& membership);
  // Of other messages: FailedPrecondition unless it is the welcomed controller's. One that sends us
  // away need not have welcomed us, but must not be of an earlier term.
  absl::Status CheckWord(const v1::ControllerMessage& message) const;

 private:
  v1::AgentMembership kept_;
  const bool rejoin_;
  int64_t welcomed_term_ = 0;  // of this session; 0: not yet
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_MEMBERSHIP_H_
