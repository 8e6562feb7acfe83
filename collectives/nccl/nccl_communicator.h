// Group communication between the GPUs of one world, by NCCL: work on a CUDA stream.
//
// The operations are those of collectives/communicator.h, but they are not polled: Issue puts one
// on a stream, where it runs in that stream's order, and events order it against other work.
//
//   ASSIGN_OR_RETURN(auto communicator, NcclCommunicator::Create({.rank = 1, .size = 8, …}));
//   ASSIGN_OR_RETURN(const GroupId gathers, communicator->CreateGroup({0, 1, 2, 3}));
//   ASSIGN_OR_RETURN(const GroupId reductions, communicator->Duplicate(gathers));
//   RETURN_IF_ERROR(communicator->Issue({.kind = OpKind::kAllGather, .group = gathers, …},
//   stream)); RETURN_IF_ERROR(communicator->Wait(stream, absl::Seconds(60)));
//
// A group is an NCCL communicator of its own, and NCCL runs the operations of one communicator in
// the order of their issue, whatever streams they are on. So each purpose has its group: one per
// stream and set of ranks, one per direction of a pipeline.
//
// Order. All members of a group issue its operations in the same order; ranks that share several
// groups issue the collectives of all of them in the same order too, since kernels of NCCL that
// wait for each other may not fit on a device side by side. A program's list order is such an
// order. Tags do not travel: sends to a member match its receives in the order of issue, so
// channels that may overtake each other need groups of their own.
//
// Sums are NCCL's: the order in which members are added, and where sums of 16-bit types are
// rounded, follow the algorithm that it chooses (by version, size and topology), not the fixed tree
// of communicator.h. The same run on the same machines repeats its bits; another layout need not.
// No scratch is used.
//
// Threads: one thread issues; Check, Wait and Abort may be called by others. Memory: buffers belong
// to the device, and to the operation until what follows it on the stream. Failure: the first
// asynchronous error, passed deadline or Abort is what every later call returns. What is queued may
// then hang until Abort (or Wait or Close, which nobody follows) has aborted all groups: their
// operations end, with nothing said of their results, and streams go on. So whoever learns of a
// failure first makes it known to those who take a stream's end for success, and aborts then.
#ifndef STRATA_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
#define STRATA_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

struct ncclComm;

namespace strata::collectives {

struct NcclGroup;

// How a group learns its id, a secret (who has it can join): every member of `world_ranks` calls
// it, and each gets the bytes that the first of them brought. It returns an error within a time of
// its own when a member does not come.
using ShareBytes =
    std::function<absl::StatusOr<std::string>(absl::Span<const int> world_ranks, std::string own)>;

// Through a communicator between the same ranks, on the CPU, which must outlive it. It makes a
// group for each call, in which it broadcasts; while it runs, nobody else drives the communicator.
ShareBytes ShareOver(Communicator* bootstrap);

class NcclCommunicator {
 public:
  struct Options {
    int rank = 0, size = 1;  // in the world
    int device = 0;          // CUDA's ordinal, of which every stream and buffer is
    ShareBytes share;        // not needed in a world of one
    // For a group to form, and for an operation to be put on its stream (NCCL connects members when
    // they first need each other).
    absl::Duration timeout = absl::Seconds(120);
  };
  // InvalidArgument: options that cannot be; Unavailable: CUDA has no such device.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(Options options);
  // Aborts what Close has not closed.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

  // Forms a group with the other members, who call it too; `world_ranks` as for Communicator.
  // DeadlineExceeded: a member did not come; otherwise InvalidArgument, or the error of `share`, of
  // CUDA or of NCCL.
  absl::StatusOr<GroupId> CreateGroup(absl::Span<const int> world_ranks);
  // Another group of the same members, for another purpose; needs no `share`. All members call it,
  // while no operation of the group is outstanding. Errors abort all groups.
  absl::StatusOr<GroupId> Duplicate(GroupId group);
  int GroupSize(GroupId group) const;
  int GroupIndex(GroupId group) const;  // this rank's

  // Tells NCCL of memory (of cudaMalloc) that operations of the group will use again and again, so
  // that it reads and writes it without copies. It stays allocated until Close or Abort.
  absl::Status Register(GroupId group, void* buffer, int64_t bytes);

  // Puts an operation on a stream; returns once it is there, so that an event recorded afterwards
  // is behind it. InvalidArgument: fields that cannot be; DeadlineExceeded, which is a failure:
  // members did not connect; after a failure, its status.
  absl::Status Issue(const Operation& operation, cudaStream_t stream) {
    return IssueTogether({&operation, 1}, stream);
  }
  // Puts several there as one, which needs all of them to end: sends and receives that wait for
  // each other, or small operations, as NCCL gives each non-blocking launch a thread of its own,
  // which takes the host longer than a kernel's launch. They may not depend on one another.
  absl::Status IssueTogether(absl::Span<const Operation> operations, cudaStream_t stream);

  // Asks NCCL for asynchronous errors of any group (Internal; Unavailable: of another rank). Aborts
  // nothing: streams go no further for it.
  absl::Status Check();
  // Blocks until all that was put on the stream has run, checking. DeadlineExceeded, and then all
  // groups are aborted: it has not within `at_most`; what is told is what was issued last, to
  // compare with other ranks'.
  absl::Status Wait(cudaStream_t stream, absl::Duration at_most);
  // From any thread: aborts all groups, after a failure or for this reason, which is not OK and, if
  // it is the first, counts.
  void Abort(absl::Status status);

  // Ends all groups together with their other members, once everything issued has run.
  // DeadlineExceeded: members did not come within `at_most`; the groups are aborted instead.
  absl::Status Close(absl::Duration at_most);

  // For messages: of each group its ranks, how many operations were issued and the last of them.
  std::string Describe() const;

 private:
  explicit NcclCommunicator(Options options);
  absl::Status Await(ncclComm* comm, absl::string_view what, absl::Duration at_most);
  absl::StatusOr<GroupId> Form(std::unique_ptr<NcclGroup> group, ncclComm* parent,
                               absl::Status begun);
  ncclComm* CommOf(GroupId group) const;
  // With mutex_ held.
  void Fail(absl::Status status);
  void AbortAll(absl::Status status);
  absl::Status CheckGroup(GroupId group) const;

  const Options options_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable failed_;
  absl::Status failure_;
  bool is_ended_ = false;                             // all groups were aborted, or closed
  std::vector<std::unique_ptr<NcclGroup>> groups_;    // by id
  std::vector<std::unique_ptr<NcclGroup>> unformed_;  // NCCL may still know where they lie
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
