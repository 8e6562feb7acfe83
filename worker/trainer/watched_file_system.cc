#include "worker/trainer/watched_file_system.h"

#include <utility>

#include "common/status_macros.h"

namespace strata::worker {
namespace {

class WatchedWritableFile final : public checkpoint::WritableFile {
 public:
  WatchedWritableFile(std::unique_ptr<checkpoint::WritableFile> file, ProgressWriter* progress)
      : file_(std::move(file)), progress_(progress) {}

  absl::Status Append(const void* bytes, size_t size) override {
    const StorageOperation operation(progress_);
    return file_->Append(bytes, size);
  }
  absl::Status Sync() override {
    const StorageOperation operation(progress_);
    return file_->Sync();
  }
  absl::Status Close() override {
    const StorageOperation operation(progress_);
    return file_->Close();
  }

 private:
  const std::unique_ptr<checkpoint::WritableFile> file_;
  ProgressWriter* const progress_;
};

class WatchedReadableFile final : public checkpoint::ReadableFile {
 public:
  WatchedReadableFile(std::unique_ptr<checkpoint::ReadableFile> file, ProgressWriter* progress)
      : file_(std::move(file)), progress_(progress) {}

  int64_t size_bytes() const override { return file_->size_bytes(); }
  absl::Status ReadAt(int64_t offset, int64_t size, void* out) override {
    const StorageOperation operation(progress_);
    return file_->ReadAt(offset, size, out);
  }

 private:
  const std::unique_ptr<checkpoint::ReadableFile> file_;
  ProgressWriter* const progress_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<checkpoint::WritableFile>> WatchedFileSystem::CreateFile(
    const std::string& path) {
  const StorageOperation operation(progress_);
  ASSIGN_OR_RETURN(std::unique_ptr<checkpoint::WritableFile> file, files_->CreateFile(path));
  return std::make_unique<WatchedWritableFile>(std::move(file), progress_);
}

absl::StatusOr<std::unique_ptr<checkpoint::ReadableFile>> WatchedFileSystem::OpenFile(
    const std::string& path) {
  const StorageOperation operation(progress_);
  ASSIGN_OR_RETURN(std::unique_ptr<checkpoint::ReadableFile> file, files_->OpenFile(path));
  return std::make_unique<WatchedReadableFile>(std::move(file), progress_);
}

absl::Status WatchedFileSystem::CreateFolder(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->CreateFolder(path);
}

absl::Status WatchedFileSystem::RenameFile(const std::string& from, const std::string& to) {
  const StorageOperation operation(progress_);
  return files_->RenameFile(from, to);
}

absl::Status WatchedFileSystem::RenameFolder(const std::string& from, const std::string& to) {
  const StorageOperation operation(progress_);
  return files_->RenameFolder(from, to);
}

absl::Status WatchedFileSystem::PublishFolder(const std::string& from, const std::string& to) {
  const StorageOperation operation(progress_);
  return files_->PublishFolder(from, to);
}

absl::Status WatchedFileSystem::SyncFolder(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->SyncFolder(path);
}

absl::Status WatchedFileSystem::RemoveAll(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->RemoveAll(path);
}

bool WatchedFileSystem::Exists(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->Exists(path);
}

absl::StatusOr<bool> WatchedFileSystem::IsFolder(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->IsFolder(path);
}

absl::StatusOr<std::vector<std::string>> WatchedFileSystem::List(const std::string& path) {
  const StorageOperation operation(progress_);
  return files_->List(path);
}

absl::StatusOr<std::string> WatchedFileSystem::ReadWhole(const std::string& path,
                                                         size_t limit_bytes) {
  const StorageOperation operation(progress_);
  return files_->ReadWhole(path, limit_bytes);
}

}  // namespace strata::worker
