// The operations on files that writing, committing and reading a checkpoint consist of. They enter
// from outside, so that a test can fail or interrupt any one of them.
#ifndef STRATA_CHECKPOINT_FILE_SYSTEM_H_
#define STRATA_CHECKPOINT_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::checkpoint {

// The status of a failed system call, as "PATH: no space left on device (write)". ResourceExhausted
// for a full disk or quota, PermissionDenied, NotFound, AlreadyExists, FailedPrecondition for a
// part of the path that is a file, else Unavailable.
absl::Status StatusFromErrno(int error, const std::string& path, const char* action);

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes, without reporting
  // Writes all of it (partial writes and signals are dealt with).
  virtual absl::Status Append(const void* bytes, size_t size) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// An open file. Any thread may read.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size_bytes() const = 0;  // when it was opened
  // Bytes [offset, offset + size). DataLoss: the file ends before; Unavailable: the storage failed.
  virtual absl::Status ReadAt(int64_t offset, int64_t size, void* out) = 0;
};

// Any thread may call.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a folder, and durably its entry in the parent. OK if it is there already.
  virtual absl::Status CreateFolder(const std::string& path) = 0;
  // Creates a file, or empties the one there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) = 0;
  // Opens a regular file. InvalidArgument for anything else; NotFound, PermissionDenied, ….
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(const std::string& path) = 0;
  // Renames a file, replacing the one there.
  virtual absl::Status RenameFile(const std::string& from, const std::string& to) = 0;
  // Renames a folder. AlreadyExists, and nothing done, when `to` exists.
  virtual absl::Status RenameFolder(const std::string& from, const std::string& to) = 0;
  // Moves a folder to a place where there is nothing, or an empty folder. AlreadyExists, and
  // nothing done, otherwise. Where the system can exchange folders, an empty one stays at `from`:
  // programs that walk the tree meanwhile (backups, monitors) do not find a folder gone that they
  // just listed. A crash inside may leave an empty folder at `to`.
  virtual absl::Status PublishFolder(const std::string& from, const std::string& to) = 0;
  // Makes the entries of a folder durable.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Removes a file, or a folder with all that is in it; OK if there is none. Follows no links.
  virtual absl::Status RemoveAll(const std::string& path) = 0;

  virtual bool Exists(const std::string& path) = 0;
  // Whether there is a folder or something else, links followed; NotFound, PermissionDenied, ….
  virtual absl::StatusOr<bool> IsFolder(const std::string& path) = 0;
  // Names in a folder, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // A whole small file. ResourceExhausted beyond `limit_bytes`.
  virtual absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit_bytes) = 0;
};

// The operating system's. Lives as long as the process.
FileSystem* PosixFileSystem();

// Creates `path` and its missing parents.
absl::Status CreateFolders(FileSystem* files, const std::string& path);
// Writes a small file so that after a crash either the old or the new content is there: temporary
// name, sync, rename, sync of the folder.
absl::Status WriteAtomically(FileSystem* files, const std::string& path, const std::string& text);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_FILE_SYSTEM_H_
