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
#include "worker/shared/progress_view.h"

namespace strata::worker {

// Owns a read-only map of the file. Used by one thread.
class ProgressReader final : public ProgressView {
 public:
  struct Outcome {
    OutcomeState state = OutcomeState::kNone;
    int exit_code = 0;
    std::string message;
  };

  // `descriptor` stays the caller's. Unavailable: not laid out yet; InvalidArgument: another
  // magic, version or size; Internal: system calls. A file that its writer shortens later ends a
  // reader with SIGBUS, which no writer of ours does after laying it out.
  static absl::StatusOr<std::unique_ptr<ProgressReader>> Open(int descriptor);
  ~ProgressReader() override;
  ProgressReader(const ProgressReader&) = delete;
  ProgressReader& operator=(const ProgressReader&) = delete;

  int64_t step() const override { return header_->step.load(std::memory_order_relaxed); }
  uint64_t ticks() const override { return header_->ticks.load(std::memory_order_relaxed); }
  Phase phase() const override;
  double phase_begin() const override;
  int64_t checkpoint_step() const override {
    return header_->checkpoint_step.load(std::memory_order_relaxed);
  }
  bool in_storage_operation() const override {
    return header_->storage_operations.load(std::memory_order_relaxed) != 0;
  }
  double storage_tick() const override;
  std::vector<Activity> Activities() const override;
  uint64_t Begun(const std::string& group, int stream) const override;
  // The label of what the stream is at; empty when idle, "instruction 7" without a label.
  std::string Current(int stream) const;
  // The label of the instruction that began last; empty before the first.
  std::string Latest() const;
  std::string DescribePosition() const override;
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
