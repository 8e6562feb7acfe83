// A ring of the latest operations of one rank, in memory that the caller supplies, so that another
// process can read it from a shared-memory file while the rank runs, hangs or is stopped: it names
// the rank whose sequence lags.
//
// One writer (the thread that drives the communicator), any number of readers, no locks: each
// record is published as in a sequence lock (an odd version while it is written), and a reader
// skips a record that changes under it.
#ifndef STRATA_COLLECTIVES_OPERATION_RING_H_
#define STRATA_COLLECTIVES_OPERATION_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::collectives {

enum class OperationState : uint32_t { kPosted = 0, kDone = 1, kFailed = 2 };

// Fixed layout: processes of one build share it.
struct OperationRecord {
  uint64_t number;    // counts this rank's operations from 1
  uint64_t sequence;  // collectives: counts the group's from 0; sends and receives: the peer pair's
  int32_t group;      // GroupId
  uint32_t op;        // OpKind
  int32_t peer;       // world rank of the root or the other end; -1 where there is none
  uint32_t state;     // OperationState
  int64_t bytes;      // count × element size
  int64_t begin_ns;   // CLOCK_MONOTONIC
  int64_t end_ns;     // 0 while in flight
};
static_assert(sizeof(OperationRecord) == 56);

class OperationRing {
 public:
  // Bytes that `capacity` records take, header included.
  static size_t RegionBytes(uint32_t capacity);

  // The writer: lays an empty ring into `region` (aligned to 64, at least RegionBytes(capacity)).
  // InvalidArgument: too small, misaligned, or capacity 0.
  static absl::StatusOr<OperationRing> Create(absl::Span<std::byte> region, uint32_t capacity);

  // Records the start of an operation and returns its number, for End.
  uint64_t Begin(const OperationRecord& record);
  // Records its end, unless newer operations have already taken its place.
  void End(uint64_t number, OperationState state, int64_t end_ns);

 private:
  struct Header;
  struct Slot;
  friend absl::StatusOr<std::vector<OperationRecord>> ReadOperations(absl::Span<const std::byte>);

  OperationRing(Header* header, Slot* slots) : header_(header), slots_(slots) {}

  Header* header_;
  Slot* slots_;
};

// A reader: the records in the region, oldest first. `region` may be a read-only map of a file that
// a process of unknown health wrote: sizes are checked, damage is InvalidArgument.
absl::StatusOr<std::vector<OperationRecord>> ReadOperations(absl::Span<const std::byte> region);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_OPERATION_RING_H_
