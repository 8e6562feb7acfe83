// A file system whose every operation of one chunk is seen in the progress file.
#ifndef STRATA_WORKER_TRAINER_WATCHED_FILE_SYSTEM_H_
#define STRATA_WORKER_TRAINER_WATCHED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "worker/shared/progress_writer.h"

namespace strata::worker {

// A file operation of one chunk, for as long as it lives.
class StorageOperation {
 public:
  explicit StorageOperation(ProgressWriter* progress) : progress_(progress) {
    progress_->BeginStorage();
  }
  ~StorageOperation() { progress_->EndStorage(); }
  StorageOperation(const StorageOperation&) = delete;
  StorageOperation& operator=(const StorageOperation&) = delete;

 private:
  ProgressWriter* const progress_;
};

// Any thread may call. Both are borrowed, also by its files.
class WatchedFileSystem final : public checkpoint::FileSystem {
 public:
  WatchedFileSystem(checkpoint::FileSystem* files, ProgressWriter* progress)
      : files_(files), progress_(progress) {}

  absl::Status CreateFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<checkpoint::WritableFile>> CreateFile(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<checkpoint::ReadableFile>> OpenFile(
      const std::string& path) override;
  absl::Status RenameFile(const std::string& from, const std::string& to) override;
  absl::Status RenameFolder(const std::string& from, const std::string& to) override;
  absl::Status PublishFolder(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<bool> IsFolder(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit_bytes) override;

 private:
  checkpoint::FileSystem* const files_;
  ProgressWriter* const progress_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_WATCHED_FILE_SYSTEM_H_
