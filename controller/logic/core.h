// The controller's logic: jobs, nodes, epochs. No gRPC, no SQLite, no threads, no clock of its own.
//
// One reconcile function decides everything: after each input it looks at every job whose state may
// have changed and takes the steps that are due. All failures (a trainer's death, a hang, a lost
// node, an epoch that does not start) come to the same place: epoch + 1.
#ifndef STRATA_CONTROLLER_LOGIC_CORE_H_
#define STRATA_CONTROLLER_LOGIC_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/entropy.h"
#include "controller/logic/audit_trail.h"
#include "controller/logic/effects.h"
#include "controller/logic/job_record.h"
#include "controller/logic/join_tokens.h"
#include "controller/logic/plan_families.h"
#include "controller/logic/removed_nodes.h"
#include "controller/logic/snapshot.h"
#include "proto/strata/v1/cluster.pb.h"
#include "protocol/versions.h"
#include "topology/cluster.h"

namespace strata::controller {

// What the autos of a job's spec were decided to be before it came here.
struct DecidedSpec {
  v1::JobSpec spec;
  std::string why;  // one line, of the job's first event
};

class Core {
 public:
  // Borrowed: clock. `map`: the cluster's levels and links; nodes join by themselves. Without
  // levels it has those that the nodes' localities name: region, zone, rack and domain, in this
  // order, then others by name; a node that names no domain is then one by itself. `entropy`: for
  // what must be unique (uids of jobs, the cluster's own). `protocol`: what it speaks with agents.
  explicit Core(const common::Clock* clock, topology::Description map = {},
                common::Entropy entropy = common::SystemEntropy(),
                const v1::ProtocolRange& protocol = protocol::OwnRange());
  ~Core();

  // Once, with everything the store holds; begins a new controller_term (in the effects' writes).
  // Jobs that were RUNNING or STARTING stay so until their agents come back or the lease is over.
  // DataLoss: records that cannot be read, by table and key, and what to do about them; without
  // them this would be another cluster than it was. Then nothing else may be called.
  absl::StatusOr<Effects> Load(const std::vector<Write>& records, double wall_seconds);

  // Requests. What is returned is for the client once the effects' writes are durable.
  // `actor`: who asks (users/NAME), as events tell it; empty: nobody known.
  // `decided`: instead of the request's spec; null: that has no autos. A request that is repeated
  // needs none.
  absl::StatusOr<v1::JobRecord> CreateJob(const v1::CreateJobRequest& request, Effects& effects,
                                          const std::string& actor = "",
                                          const DecidedSpec* decided = nullptr);
  absl::StatusOr<v1::JobRecord> CancelJob(const v1::CancelJobRequest& request, Effects& effects,
                                          const std::string& actor = "");
  absl::StatusOr<v1::JobRecord> UpdateJob(const v1::UpdateJobRequest& request, Effects& effects,
                                          const std::string& actor = "");
  absl::StatusOr<v1::JobRecord> SuspendJob(const v1::SuspendJobRequest& request, Effects& effects,
                                           const std::string& actor = "");
  absl::StatusOr<v1::JobRecord> ResumeJob(const v1::ResumeJobRequest& request, Effects& effects,
                                          const std::string& actor = "");
  absl::Status DeleteJob(const v1::DeleteJobRequest& request, Effects& effects,
                         const std::string& actor = "");
  // Newest first; they stay as they are. NotFound.
  using EventPointer = std::shared_ptr<const NumberedEvent>;
  absl::StatusOr<std::vector<EventPointer>> JobEvents(const std::string& name) const;
  // Explain of a snapshot of now; NotFound.
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& name) const;
  const v1::JobRecord* FindJob(const std::string& name) const;
  // A record as users see it: in the queue it says why it waits now, which no record holds, for it
  // may change with every other job.
  v1::Job ShowJob(const v1::JobRecord& record) const;
  std::vector<const v1::JobRecord*> Jobs() const;                   // by name
  std::vector<v1::Node> Nodes() const;                              // in topology order
  std::optional<v1::Node> FindNode(const std::string& name) const;  // nodes/NAME
  // For readers on other threads. As of the last input: what it holds may not be durable yet.
  std::shared_ptr<const Snapshot> TakeSnapshot() const;
  // As ClusterService's methods of these names.
  absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(const v1::ApplyPolicyRequest& request,
                                                      Effects& effects);
  const v1::Policy& policy() const;  // complete
  absl::StatusOr<v1::Node> DrainNode(const v1::DrainNodeRequest& request, Effects& effects);
  absl::StatusOr<v1::DrainNodesResponse> DrainNodes(const v1::DrainNodesRequest& request,
                                                    Effects& effects);
  absl::StatusOr<v1::Node> ResumeNode(const v1::ResumeNodeRequest& request, Effects& effects);
  absl::Status DeleteNode(const v1::DeleteNodeRequest& request, Effects& effects);
  bool HasNode(const std::string& name) const;  // nodes/NAME
  const RemovedNodes& removed_nodes() const;
  const PlanFamilies& plan_families() const;
  const JoinTokens& join_tokens() const;
  JoinTokens& join_tokens();
  // Adds a record of what a call did, with the time and the next sequence; `most` are kept. With
  // the effects of what it tells of.
  void Audit(v1::AuditRecord record, size_t most, Effects& effects);
  const AuditTrail::Records& audit() const;
  int64_t controller_term() const;
  const v1::StoreIdentity& identity() const;
  int64_t resource_version() const;
  int64_t deletion_version() const;  // of the last deletion of a job
  // Whether most nodes fell silent together, so that it suspends its judgement of their leases.
  bool cut_off() const;

  // A session's messages; its first is Register. `session` tells sessions of one node apart.
  void OnAgent(uint64_t session, const v1::AgentMessage& message, Effects& effects);
  void OnSessionEnd(uint64_t session, Effects& effects);
  // For a layer that listens on the core's behalf and does not pass on heartbeats that say nothing
  // new: since the last input every session but `silent` was heard from as often as it should be.
  // That time, however long, is no standstill: it counts towards all deadlines, but only for the
  // silent ones, and for nodes without a session, as silence. Takes time in proportion to these.
  void OnHeard(absl::Span<const uint64_t> silent);
  // Messages of these sessions have come, and wait to be given to OnAgent: their nodes are not
  // silent, however long that takes.
  void OnArrived(absl::Span<const uint64_t> sessions);
  // Call several times per node_lost_seconds, with the wall clock for display.
  // `standstill_seconds`: since the last tick the caller's thread was due to run for so long and
  // did not (a suspended process). It counts neither as silence of nodes nor towards any deadline.
  // Work, such as a slow commit, is no standstill.
  void OnTick(double wall_seconds, Effects& effects, double standstill_seconds = 0);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_CORE_H_
