// What this folder's tests share: temporary folders, a file system that fails where it is told to,
// and a small model's checkpoint.
#ifndef STRATA_CHECKPOINT_TESTING_H_
#define STRATA_CHECKPOINT_TESTING_H_

#include <cstdint>
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

  absl::Status CreateFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) override;
  absl::Status RenameFile(const std::string& from, const std::string& to) override;
  absl::Status RenameFolder(const std::string& from, const std::string& to) override;
  absl::Status PublishFolder(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;
  bool Exists(const std::string& path) override { return real_->Exists(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return real_->List(path);
  }
  absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit) override {
    return real_->ReadWhole(path, limit);
  }

 private:
  friend class FaultyFile;
  absl::Status Step(const std::string& path, const char* action);
  enum class Move { kFile, kFolder, kPublish };
  absl::Status Rename(const std::string& from, const std::string& to, Move move);

  FileSystem* const real_ = PosixFileSystem();
  const Fault fault_;
  const int at_;
  int done_ = 0;
  bool fired_ = false;
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
  std::vector<std::vector<float>> memory;
  std::vector<SnapshotItem> items;
};
Snapshot SnapshotOf(int64_t step, int rank, int ranks);

CommitRequest RequestOf(int64_t epoch, int64_t step, std::vector<FileFragment> fragments,
                        int64_t keep = 0);
// Writes all ranks' files and commits.
absl::StatusOr<Published> WriteCheckpoint(FileSystem* files, const std::string& directory,
                                          int64_t epoch, int64_t step, int ranks, int64_t keep = 0);
// Reads everything back in `readers` parts; an empty text, or what differs.
std::string Compare(Checkpoint& checkpoint, int64_t step, int readers);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_TESTING_H_
