// Asynchronous group communication between the ranks of one world.
//
// A Communicator is one rank's endpoint. Ranks form groups; an operation on a group is posted by
// every member, in the same order on all of them, and proceeds while Progress() is called:
//
//   ASSIGN_OR_RETURN(const GroupId group, communicator->CreateGroup({0, 2, 5}));
//   ASSIGN_OR_RETURN(const OperationId id, communicator->Post({.kind = OpKind::kAllGather, .group =
//   group,
//                                                              .type = DataType::kF32, .count =
//                                                              1024, .in = part, .out = whole}));
//   for (;;) {
//     ASSIGN_OR_RETURN(const bool done, communicator->Test(id));
//     if (done) break;
//     if (!communicator->Progress()) communicator->Wait(absl::Milliseconds(100));
//   }
//
// Threads: everything but Cancel and Wake is called by one thread, which also does the adding of
// reductions. Memory: buffers and scratch belong to the caller and stay valid and unwritten (`in`)
// or untouched (`out`, `scratch`) until the operation has been tested as done or failed. Nothing of
// ours allocates after the groups were created, except when something fails. Failure: the first
// operation that fails (a lost peer, members that disagree about an operation) fails the whole
// communicator, as Cancel does, because the members no longer agree on what comes next.
#ifndef STRATA_COLLECTIVES_COMMUNICATOR_H_
#define STRATA_COLLECTIVES_COMMUNICATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace strata::collectives {

enum class DataType : uint8_t { kBytes, kF32, kF64, kBF16, kF16 };

// Below, n is the size of the group and i this member's index in it; sizes are in elements of
// `type`.
enum class OpKind : uint8_t {
  // out[n × count]: part j is member j's in[count]. In place when in == out + i × count.
  kAllGather,
  // out[count] = sum over members j of their in[i × count ... + count]; `in` has n × count
  // elements. In place when
  // out == in + i × count.
  kReduceScatter,
  // out[count] = sum over members of in[count]; in == out is allowed. count need not divide by n.
  kAllReduce,
  // out[count] on every member = out[count] of member `peer`, which only reads it.
  kBroadcast,
  // in[count] goes to member `peer`, into the out[count] of its kReceive with the same tag; between
  // two members,
  // sends and receives of one tag match in order.
  kSend,
  kReceive,
  // Done when every member has posted it.
  kBarrier,
  // out[n × count]: part j is part i of member j's in[n × count]. Not in place.
  kAllToAll,
  // out[count] = in[count] of the member before this one, the last one's for the first. Not in
  // place.
  kRotate,
};

inline bool IsPointToPoint(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kReceive;
}

// Sums add in a fixed tree over the members: leaves 0 … n−1 are paired bottom-up, 2i with 2i+1, an
// odd last one passes up unchanged. So the bits of a sum depend neither on the backend nor on which
// member arrives first. kBytes cannot be summed. Sums of 16-bit types travel in these, are added in
// f32 and rounded once, to the nearest, ties to even.

struct GroupId {
  int32_t value = -1;
  friend bool operator==(GroupId, GroupId) = default;
};

struct OperationId {
  uint32_t slot = 0;
  uint32_t generation = 0;
  friend bool operator==(OperationId, OperationId) = default;
};

struct Operation {
  OpKind kind = OpKind::kBarrier;
  GroupId group;
  DataType type = DataType::kBytes;
  int64_t count = 0;          // elements, see OpKind
  const void* in = nullptr;   // aligned to the element
  void* out = nullptr;        // aligned to the element
  void* scratch = nullptr;    // aligned to 64 bytes, ScratchBytes() of them
  int64_t scratch_bytes = 0;  // what is there: at least ScratchBytes(), or Post refuses
  int peer = 0;  // index in the group: the root of a broadcast, the other end of a send or receive
  uint32_t tag = 0;  // kSend and kReceive: below kMaxTag
};

inline constexpr uint32_t kMaxTag = 1024;
inline constexpr int kMaxGroupSize = 16384;

int64_t ElementBytes(DataType type);
const char* OpName(OpKind kind);  // "all-gather", …

// Scratch that an operation with these fields needs in a group of `group_size`: where the other
// members' unreduced pieces arrive. Depends on nothing else, so a memory plan can hold it; 0 for
// operations that do not add and for groups of one.
int64_t ScratchBytes(OpKind kind, DataType type, int64_t count, int group_size);

class OperationRing;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // in the world
  virtual int size() const = 0;  // of the world

  // Groups are made when ranks join and live as long as the communicator. `world_ranks` are
  // distinct and contain this rank, in the same order on every member; the position in it is a
  // member's index in the group. Two groups may have the same ranks: they are told apart by order
  // of creation. Members whose address this rank was not given are no error as long as no operation
  // needs them. InvalidArgument: not such a list. Otherwise errors of the transport.
  virtual absl::StatusOr<GroupId> CreateGroup(absl::Span<const int> world_ranks) = 0;
  virtual int GroupSize(GroupId group) const = 0;
  virtual int GroupIndex(GroupId group) const = 0;  // this rank's

  // Starts an operation. InvalidArgument: fields that cannot be; FailedPrecondition: it needs a
  // rank whose address this one was not given (a collective needs all members); ResourceExhausted:
  // as many operations are in flight as the communicator was made for; after Cancel or a failure,
  // its status.
  virtual absl::StatusOr<OperationId> Post(const Operation& operation) = 0;

  // Moves every operation along as far as it goes without waiting (adding at most a bounded
  // amount); true when an operation completed or failed, or when more can be done at once.
  virtual bool Progress() = 0;

  // True when the operation is done; the first true or error forgets the id.
  virtual absl::StatusOr<bool> Test(OperationId id) = 0;

  // Blocks until there may be something for Progress to do, Wake or Cancel was called since the
  // last Wait, or `timeout` has passed. Looks for a few microseconds, then sleeps without using the
  // processor.
  virtual void Wait(absl::Duration timeout) = 0;

  // From any thread: ends the present Wait, or else the next.
  virtual void Wake() = 0;

  // From any thread: every operation in flight or posted later fails with `status` (not OK); the
  // first call counts. Those in flight fail inside the next Progress, and Wait returns for it. From
  // then on nothing is written to their buffers, but a peer that was being sent to may still read.
  virtual void Cancel(absl::Status status) = 0;

  // Where operations are recorded for other processes to read; none when never set. Must outlive
  // this.
  virtual void SetRing(OperationRing* ring) = 0;
};

// Posts, and drives the communicator until the operation is done: for joins, tests and tools.
absl::Status RunOperation(Communicator& communicator, const Operation& operation);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_COMMUNICATOR_H_
