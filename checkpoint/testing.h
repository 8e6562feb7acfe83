// What this folder's tests share: temporary folders, a file system that fails where it is told to,
// and a small model's checkpoint.
#ifndef STRATA_CHECKPOINT_TESTING_H_
#define STRATA_CHECKPOINT_TESTING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/committer.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"

namespace strata::checkpoint {

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

// The real file system, except that syncs are only remembered, and that one operation fails: with
// "no space left on device", once; or as a crash: half done, like everything after it. LosePower()
// then takes away what was not synced: contents of files, and renames.
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault { kNone, kError, kCrash };
  // The `at`-th operation fails, counted from 1.
  explicit FaultyFileSystem(Fault fault = Fault::kNone, int at = 0) : fault_(fault), at_(at) {}

  bool fired() const { return fired_; }
  void LosePower();

  // Reads (of whole files, of parts, openings, listings) are counted on their own.
  enum class ReadFault {
    kError,
    kFlippedBit
  };  // the storage fails; a byte is not what was written
  void FailRead(ReadFault fault, int at) { read_fault_ = fault, read_at_ = at, reads_ = 0; }
  int64_t bytes_read() const { return bytes_read_; }  // of parts of files

  absl::Status CreateFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) override;
  absl::Status RenameFile(const std::string& from, const std::string& to) override;
  absl::Status RenameFolder(const std::string& from, const std::string& to) override;
  absl::Status PublishFolder(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(const std::string& path) override;
  bool Exists(const std::string& path) override { return real_->Exists(path); }
  absl::StatusOr<bool> IsFolder(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit) override;

 private:
  friend class FaultyFile;
  friend class FaultyReadableFile;
  // Whether a bit of what is read is to be flipped; an error when the read fails.
  absl::StatusOr<bool> StepRead(const std::string& path);
  absl::Status Step(const std::string& path, const char* action);
  enum class Move { kFile, kFolder, kPublish };
  absl::Status Rename(const std::string& from, const std::string& to, Move move);

  FileSystem* const real_ = PosixFileSystem();
  const Fault fault_;
  const int at_;
  int done_ = 0;
  bool fired_ = false;
  ReadFault read_fault_ = ReadFault::kError;
  int read_at_ = 0;
  int reads_ = 0;
  int64_t bytes_read_ = 0;
  std::set<std::string> unsynced_;
  struct PendingRename {
    std::string from, to;
    std::optional<std::string> replaced;  // content of the file that was at `to`
  };
  std::vector<PendingRename> renames_;  // not durable yet
};

// A model of a few tensors of odd sizes, with optimizer state, at some step.
std::vector<LogicalTensor> SmallModel();
// What element `index` of a tensor is at a step: different everywhere.
float ValueAt(const LogicalTensor& tensor, int64_t step, int64_t index);

// A rank's share of the model, and the memory behind it: parameters are cut elsewhere than states.
struct Snapshot {
  std::deque<std::vector<float>> memory;
  std::vector<SnapshotItem> items;
};
Snapshot SnapshotOf(int64_t step, int rank, int ranks);

// The tensor cut into boxes along random dimensions, some of them into ranges once more; the pieces
// in an order of their own. Together the whole tensor.
std::vector<Region> RandomCut(const std::vector<int64_t>& shape, uint64_t seed);
// A region of a tensor in a memory of its own: strided by gaps where `strided`.
void AddRegion(const LogicalTensor& tensor, int64_t step, const Region& region, bool strided,
               Snapshot& snapshot);

CommitRequest RequestOf(int64_t epoch, int64_t step, std::vector<FileFragment> fragments,
                        int64_t keep = 0);
// Writes all ranks' files and commits.
absl::StatusOr<Published> WriteCheckpoint(FileSystem* files, const std::string& directory,
                                          int64_t epoch, int64_t step, int ranks, int64_t keep = 0);
// Reads everything back in `readers` parts; an empty text, or what differs.
std::string Compare(Checkpoint& checkpoint, int64_t step, int readers);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_TESTING_H_
