// The agent's side of a trainer's progress file. The file may be anything: the writer may have died
// at any moment, or be of another build.
#ifndef STRATA_WORKER_SHARED_PROGRESS_READER_H_
#define STRATA_WORKER_SHARED_PROGRESS_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/shared/progress_layout.h"

namespace strata::worker {

// Owns a read-only map of the file. Used by one thread.
class ProgressReader {
 public:
  struct Outcome {
    OutcomeState state = OutcomeState::kNone;
    int exit_code = 0;
    std::string message;
  };

  // An instruction in flight.
  struct Activity {
    int stream = 0;
    std::string label;
    double begin = 0;       // clock time
    double slowest = 0;     // seconds of its slowest execution lately; 0: not executed yet
    std::string group;      // that it communicates in; empty: it computes
    bool pair = false;      // with one member of the group
    bool storage = false;   // it reads or writes files, or waits for who does
    uint64_t sequence = 0;  // collectives: counts the group's on this stream from 1
  };

  // `descriptor` stays the caller's. Unavailable: not laid out yet; InvalidArgument: another
  // magic, version or size; Internal: system calls. A file that its writer shortens later ends a
  // reader with SIGBUS, which no writer of ours does after laying it out.
  static absl::StatusOr<std::unique_ptr<ProgressReader>> Open(int descriptor);
  ~ProgressReader();
  ProgressReader(const ProgressReader&) = delete;
  ProgressReader& operator=(const ProgressReader&) = delete;

  int64_t step() const { return header_->step.load(std::memory_order_relaxed); }
  uint64_t ticks() const { return header_->ticks.load(std::memory_order_relaxed); }
  Phase phase() const;
  double phase_begin() const;  // clock time
  // A checkpoint is being written while steps up to this one run.
  int64_t checkpoint_step() const {
    return header_->checkpoint_step.load(std::memory_order_relaxed);
  }
  // Whether a file operation is in flight; when one began or ended last (clock time; 0: none did).
  bool in_storage_operation() const {
    return header_->storage_operations.load(std::memory_order_relaxed) != 0;
  }
  double storage_tick() const;
  // What is in flight, by stream. What changes during the call may be left out.
  std::vector<Activity> Activities() const;
  // Collectives of the group that this rank has begun on the stream; 0 for what it does not know.
  uint64_t Begun(const std::string& group, int stream) const;
  // The label of what the stream is at; empty when idle, "instruction 7" without a label.
  std::string Current(int stream) const;
  // The label of the instruction that began last; empty before the first.
  std::string Latest() const;
  // "step 17, 'forward block 3'", for messages; empty before the first instruction.
  std::string DescribePosition() const;
  // The outcome; kNone when there is none.
  Outcome outcome() const;
  absl::Span<const std::byte> ring() const;

 private:
  ProgressReader(const std::byte* bytes, size_t size);
  const ProgressInstruction* Instruction(uint64_t position) const;
  std::string Label(uint64_t position) const;
  std::string GroupName(uint32_t group) const;
  uint32_t group_count() const;

  const std::byte* const bytes_;
  const size_t size_;
  const ProgressHeader* const header_;
  const ProgressSizes sizes_;  // read once, checked against the file's size
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_READER_H_
