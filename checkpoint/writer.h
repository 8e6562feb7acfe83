// A rank's part of a checkpoint, written while the next steps run.
#ifndef STRATA_CHECKPOINT_WRITER_H_
#define STRATA_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/one_slot_worker.h"

namespace strata::checkpoint {

// Elements [begin, end), row-major, of a box of a logical tensor, as they are in memory. Empty
// ranges are allowed and leave no trace. Several items of a tensor must not overlap, on one rank or
// on two: where a tensor is replicated, one rank hands it over. Items of one box fill it together.
struct SnapshotItem {
  LogicalTensor tensor;
  int64_t begin = 0;
  int64_t end = 0;
  const void* data = nullptr;  // owned by the caller; dense: element `begin`, else the box's first
  std::optional<Box> box = std::nullopt;  // absent: the whole tensor
  // Where the box's elements are not one after the other: the distance in elements between
  // neighbours of each dimension. Empty: dense.
  std::vector<int64_t> strides = {};
  // Instead of `data`, where memory has the elements in another form: writes `count` of them, from
  // element begin + first on, to `out`. Called by the writer's thread.
  std::function<absl::Status(int64_t first, int64_t count, void* out)> read = {};
};

// Where a rank writes.
struct WriterOptions {
  std::string directory;  // the job's checkpoint directory
  int64_t epoch = 0;
  int rank = 0;
};

// Writes DIRECTORY/.epoch-E/step-N/rank-K.safetensors: under a temporary name, synced, renamed, the
// folder synced. Returns what the committer needs to know. Errors name the file: ResourceExhausted
// (no space left), PermissionDenied, ...; a file that was begun is removed.
absl::StatusOr<FileFragment> WriteRankFile(FileSystem* files, const WriterOptions& options,
                                           int64_t step, absl::Span<const SnapshotItem> items);

// The same in a background thread, one checkpoint at a time. Owned by one thread.
class AsyncWriter {
 public:
  // `files` outlives the writer.
  AsyncWriter(WriterOptions options, FileSystem* files);

  // Starts to write. `items` and the memory they point to belong to the writer until the result is
  // taken. FailedPrecondition while an earlier result has not been taken (Wait for it first: at
  // most one checkpoint is in flight).
  absl::Status Begin(int64_t step, absl::Span<const SnapshotItem> items);
  // From Begin until the result is taken.
  bool busy() const { return worker_.busy(); }
  // Takes the result if it is there.
  std::optional<absl::StatusOr<FileFragment>> Poll() { return worker_.Poll(); }
  // Blocks for the result. FailedPrecondition when nothing was begun.
  absl::StatusOr<FileFragment> Wait();

 private:
  const WriterOptions options_;
  FileSystem* const files_;
  OneSlotWorker<absl::StatusOr<FileFragment>> worker_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_WRITER_H_
