// The agent's side of a trainer's progress file. The file may be anything: the writer may have died
// at any moment, or be of another build.
#ifndef STRATA_WORKER_SHARED_PROGRESS_READER_H_
#define STRATA_WORKER_SHARED_PROGRESS_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/shared/progress_layout.h"
#include "worker/shared/progress_view.h"

namespace strata::worker {

// Reads the file and never maps it: who may write it may shorten it, too, and a map that lost its
// file ends the process. What is no longer there reads as 0. Used by one thread.
class ProgressReader final : public ProgressView {
 public:
  struct Outcome {
    OutcomeState state = OutcomeState::kNone;
    int exit_code = 0;
    std::string message;
  };

  // `descriptor` stays the caller's, and open while there is a reader. Unavailable: not laid out
  // yet; InvalidArgument: another magic, version or size; Internal: system calls.
  static absl::StatusOr<std::unique_ptr<ProgressReader>> Open(int descriptor);
  ProgressReader(const ProgressReader&) = delete;
  ProgressReader& operator=(const ProgressReader&) = delete;

  int64_t step() const override { return Look().step; }
  uint64_t ticks() const override { return Look().ticks; }
  Phase phase() const override;
  double phase_begin() const override;
  int64_t checkpoint_step() const override { return Look().checkpoint_step; }
  bool in_storage_operation() const override { return Look().storage_operations != 0; }
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

 private:
  struct Instruction {
    std::string label;
    double slowest = 0;  // seconds
  };

  ProgressReader(int descriptor, std::unique_ptr<ProgressHeader> header);
  // Reads the header anew; valid until the next look.
  const ProgressHeader& Look() const;
  // The rest goes by the last look.
  std::optional<Instruction> FindInstruction(uint64_t position) const;
  std::string Label(uint64_t position) const;
  std::string GroupName(uint32_t group) const;
  uint32_t group_count() const;

  const int descriptor_;
  const std::unique_ptr<ProgressHeader> header_;  // a copy
  const uint32_t label_capacity_;                 // read once
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_READER_H_
