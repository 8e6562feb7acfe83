// A device with queues of its own (a GPU), as an engine sees it: memory and streams, and ops that
// are queued there.
//
// Ops of such streams are launched by the issuing thread, when it issues them. Nothing of the
// device is linked where engines have none.
#ifndef STRATA_WORKER_ENGINE_ACCELERATOR_H_
#define STRATA_WORKER_ENGINE_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "device/queue_device.h"
#include "device/unified_memory.h"
#include "program/ir/op.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

// Where an op is launched, and whether it takes place, which is decided on the device: when the
// launch comes to its turn.
struct LaunchSite {
  device::QueueStream* stream = nullptr;
  const double* decides = nullptr;  // a scalar in memory that the device reaches; null: always
  bool negated = false;             // it takes place where the scalar is 0, not where it is not
};

// An op and the places of its operands.
struct OpCall {
  const program::Op& op;
  absl::Span<const BoundOperand> operands;
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;

  virtual device::QueueDevice& device() = 0;
  virtual device::UnifiedMemory& unified() = 0;
  // Rows of at least so many actions of the compute stream are launched as one graph
  // (queue_issuer.h); 0: none.
  virtual int graph_actions() const { return 0; }

  // With what it computes that is not Strata's own, and why not, once programs are bound; empty:
  // there is nothing to tell.
  virtual std::string Remark() const { return ""; }

  // Binds an op, collectives apart; what is returned queues it, allocates nothing and waits for
  // nothing. Errors are those of worker::BindOp; Unimplemented also: an op that cannot be decided
  // on the device.
  virtual absl::StatusOr<BoundOp> BindOp(const program::Op& op,
                                         absl::Span<const BoundOperand> operands,
                                         const OpEnvironment& environment,
                                         const LaunchSite& site) = 0;
  // Whether there may be one launch for an op of the second kind right behind one of the first.
  virtual bool Joins(program::OpKind /*first*/, program::OpKind /*second*/) const { return false; }
  // That launch, which does both. Null: there is none for these; each is bound by itself, which
  // also tells what is wrong with it.
  virtual BoundOp BindJoined(const OpCall& /*first*/, const OpCall& /*second*/,
                             const OpEnvironment& /*environment*/, const LaunchSite& /*site*/) {
    return nullptr;
  }
  // Whether its streams communicate with other ranks; else groups are of one rank.
  virtual bool communicates() const = 0;
  // A group of its own for each purpose, made by all its members in one order, as Communicator's.
  virtual absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int> world_ranks) = 0;
  // Binds an operation in such a group.
  virtual absl::StatusOr<BoundOp> BindOperation(const collectives::Operation& operation,
                                                const LaunchSite& site) = 0;
  // From any thread: an error of communication, in any group. Streams that it holds up go on only
  // after AbortCommunication, so that who learns of it can make it known before.
  virtual absl::Status CheckCommunication() = 0;
  // From any thread: ends what communicates, whatever other ranks do; its results mean nothing.
  virtual void AbortCommunication(absl::Status status) = 0;
  // Ends it together with all other ranks, once everything that was queued has run.
  // DeadlineExceeded: not within `at_most`. Nothing communicates afterwards.
  virtual absl::Status CloseCommunication(absl::Duration at_most) = 0;

  // A copy between any two memories that the site decides.
  virtual absl::StatusOr<BoundOp> BindCopy(std::byte* to, const std::byte* from, int64_t bytes,
                                           const LaunchSite& site) = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ACCELERATOR_H_
