// The trainer's side of its progress file.
#ifndef STRATA_WORKER_SHARED_PROGRESS_WRITER_H_
#define STRATA_WORKER_SHARED_PROGRESS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "worker/shared/progress_layout.h"

namespace strata::worker {

// What an instruction communicates in.
struct ProgressOperation {
  int group = -1;        // index in SetGroups; -1: nothing
  bool pair = false;     // a send or receive, not a collective of the whole group
  bool storage = false;  // it reads or writes files, or waits for who does
};

// Owns a shared, writable map of the file. Begin and End may be called by several threads, each
// stream by one of them, BeginStorage and EndStorage by any; the rest by one thread.
class ProgressWriter {
 public:
  // Sizes the file, which is empty or to be overwritten, and lays an empty record into it.
  // `descriptor` stays the caller's; `clock`, a monotonic one in processes, is borrowed. Errors:
  // those of the system calls, as Internal.
  static absl::StatusOr<std::unique_ptr<ProgressWriter>> Create(int descriptor,
                                                                const ProgressSizes& sizes,
                                                                const common::Clock* clock);
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  // Labels of the instructions of each program; what exceeds the capacity has no label.
  void SetLabels(const std::vector<std::vector<std::string>>& programs);

  // Names of the groups that instructions communicate in, at most kProgressGroups.
  void SetGroups(const std::vector<std::string>& names);

  // Where collectives record their operations: ring_bytes, aligned to 64.
  absl::Span<std::byte> ring() const;

  void SetPhase(Phase phase);
  void SetStep(int64_t step);
  // A checkpoint is being written while steps up to this one run.
  void SetCheckpointStep(int64_t step);
  void Begin(int stream, int program, int instruction, const ProgressOperation& operation);
  void End(int stream);
  // Around each file operation of one chunk: an agent tells a slow storage from one that stands.
  void BeginStorage();
  void EndStorage();

  // To be called once, before a voluntary exit.
  void SetOutcome(OutcomeState state, int exit_code, const std::string& message);

 private:
  ProgressWriter(std::byte* bytes, size_t size, const ProgressSizes& sizes,
                 const common::Clock* clock);
  ProgressInstruction* instructions() const;
  void NoteExecution(uint64_t position, double seconds);

  std::byte* const bytes_;
  const size_t size_;
  ProgressHeader* const header_;
  const ProgressSizes sizes_;
  const common::Clock* const clock_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_WRITER_H_
