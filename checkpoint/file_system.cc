#include "checkpoint/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/path_roots.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

using common::PathRoots;

const PathRoots& Roots() { return PathRoots::OfProcess(); }

std::string ParentOf(const std::string& path) {
  const size_t slash = path.find_last_not_of('/');
  const size_t cut = slash == std::string::npos ? slash : path.rfind('/', slash);
  if (cut == std::string::npos) return path.empty() || path[0] != '/' ? "." : "/";
  return cut == 0 ? "/" : path.substr(0, cut);
}

class PosixFile final : public WritableFile {
 public:
  PosixFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~PosixFile() override {
    if (descriptor_ >= 0) close(descriptor_);
  }

  absl::Status Append(const void* bytes, size_t size) override {
    const char* next = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t wrote = write(descriptor_, next, size);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return StatusFromErrno(errno, path_, "write");
      next += wrote, size -= static_cast<size_t>(wrote);
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    // Not repeated on failure: the kernel may have dropped the pages that it could not write.
    if (fsync(descriptor_) != 0) return StatusFromErrno(errno, path_, "sync");
    return absl::OkStatus();
  }
  absl::Status Close() override {
    if (close(std::exchange(descriptor_, -1)) != 0) return StatusFromErrno(errno, path_, "close");
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  int descriptor_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  ~PosixReadableFile() override { close(descriptor_); }

  // OK, with the size set, for a regular file.
  absl::Status Look() {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) return StatusFromErrno(errno, path_, "stat");
    size_bytes_ = status.st_size;
    if (S_ISREG(status.st_mode)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, ": not a regular file"));
  }
  int64_t size_bytes() const override { return size_bytes_; }
  absl::Status ReadAt(int64_t offset, int64_t size, void* out) override {
    char* next = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t got = pread(descriptor_, next, static_cast<size_t>(size), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return StatusFromErrno(errno, path_, "read");
      if (got == 0) {
        return absl::DataLossError(
            absl::StrCat(path_, ": cannot be read at byte ", offset, ": the file ends there"));
      }
      next += got, offset += got, size -= got;
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int descriptor_;
  int64_t size_bytes_ = 0;
};

// As renameat2.
int Rename(const std::string& from, const std::string& to, unsigned flags) {
  const PathRoots::Place source = Roots().OpenParent(from), target = Roots().OpenParent(to);
  if (source.folder() == -1 || target.folder() == -1) return -1;
  if (flags == 0) return renameat(source.folder(), source.name(), target.folder(), target.name());
  return renameat2(source.folder(), source.name(), target.folder(), target.name(), flags);
}

class Posix final : public FileSystem {
 public:
  absl::Status CreateFolder(const std::string& path) override {
    const PathRoots::Place place = Roots().OpenParent(path);
    if (place.folder() != -1 && mkdirat(place.folder(), place.name(), 0777) == 0) {
      return SyncFolder(ParentOf(path));
    }
    const int error = errno;
    struct stat status;
    if (error == EEXIST &&
        fstatat(place.folder(), place.name(), &status, Roots().StatFlags()) == 0) {
      if (S_ISDIR(status.st_mode)) return absl::OkStatus();
      return StatusFromErrno(ENOTDIR, path, "create folder");
    }
    return StatusFromErrno(error, path, "create folder");
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) override {
    const int descriptor = Roots().OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (descriptor < 0) return StatusFromErrno(errno, path, "create");
    return std::make_unique<PosixFile>(path, descriptor);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenFile(const std::string& path) override {
    const int descriptor = Roots().OpenFile(path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0) return StatusFromErrno(errno, path, "open");
    auto file = std::make_unique<PosixReadableFile>(path, descriptor);
    RETURN_IF_ERROR(file->Look());
    return file;
  }

  absl::Status RenameFile(const std::string& from, const std::string& to) override {
    if (Rename(from, to, 0) != 0) return StatusFromErrno(errno, to, "rename");
    return absl::OkStatus();
  }

  absl::Status RenameFolder(const std::string& from, const std::string& to) override {
    if (Rename(from, to, RENAME_NOREPLACE) == 0) return absl::OkStatus();
    if (errno != EINVAL && errno != ENOSYS) return StatusFromErrno(errno, to, "rename");
    // A file system without the flag. A directory has one committer, so nobody comes between.
    if (Exists(to)) return StatusFromErrno(EEXIST, to, "rename");
    return RenameFile(from, to);
  }

  absl::Status PublishFolder(const std::string& from, const std::string& to) override {
    const PathRoots::Place place = Roots().OpenParent(to);
    if (place.folder() == -1) return StatusFromErrno(errno, to, "create folder");
    if (mkdirat(place.folder(), place.name(), 0755) != 0) {
      if (errno != EEXIST) return StatusFromErrno(errno, to, "create folder");
      ASSIGN_OR_RETURN(const std::vector<std::string> names, List(to));
      if (!names.empty()) return StatusFromErrno(EEXIST, to, "rename");
    }
    if (Rename(from, to, RENAME_EXCHANGE) == 0) return absl::OkStatus();
    int error = errno;
    if (error == EINVAL || error == ENOSYS) {  // a file system without the flag
      if (Rename(from, to, 0) == 0) return absl::OkStatus();
      error = errno;
    }
    unlinkat(place.folder(), place.name(), AT_REMOVEDIR);
    return StatusFromErrno(error, to, "rename");
  }

  absl::Status SyncFolder(const std::string& path) override {
    const int descriptor = Roots().OpenFile(path, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return StatusFromErrno(errno, path, "open folder");
    const int error = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    // EINVAL: a file system whose folders need no sync (some network ones).
    if (error != 0 && error != EINVAL) return StatusFromErrno(error, path, "sync folder");
    return absl::OkStatus();
  }

  absl::Status RemoveAll(const std::string& path) override {
    const PathRoots::Place place = Roots().OpenParent(path);
    if (place.folder() != -1 && common::RemoveTree(place.folder(), place.name()) == 0) {
      return absl::OkStatus();
    }
    return errno == ENOENT ? absl::OkStatus() : StatusFromErrno(errno, path, "remove");
  }

  bool Exists(const std::string& path) override {
    if (Roots().IsAbove(path)) return true;
    const PathRoots::Place place = Roots().OpenParent(path);
    struct stat status;
    return place.folder() != -1 &&
           fstatat(place.folder(), place.name(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }

  absl::StatusOr<bool> IsFolder(const std::string& path) override {
    const PathRoots::Place place = Roots().OpenParent(path);
    struct stat status;
    if (place.folder() == -1 ||
        fstatat(place.folder(), place.name(), &status, Roots().StatFlags()) != 0) {
      return StatusFromErrno(errno, path, "stat");
    }
    return S_ISDIR(status.st_mode);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    const int descriptor = Roots().OpenFile(path, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return StatusFromErrno(errno, path, "open folder");
    DIR* const folder = fdopendir(descriptor);
    if (folder == nullptr) {
      const int error = errno;
      close(descriptor);
      return StatusFromErrno(error, path, "open folder");
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error = errno;
    closedir(folder);
    if (error != 0) return StatusFromErrno(error, path, "list");
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit_bytes) override {
    const int descriptor = Roots().OpenFile(path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0) return StatusFromErrno(errno, path, "open");
    std::string text;
    char buffer[1 << 16];
    for (;;) {
      const ssize_t got = read(descriptor, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      const int error = got < 0 ? errno : 0;
      if (got > 0) text.append(buffer, static_cast<size_t>(got));
      if (got > 0 && text.size() <= limit_bytes) continue;
      close(descriptor);
      if (error != 0) return StatusFromErrno(error, path, "read");
      if (text.size() <= limit_bytes) return text;
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": larger than the limit of ", limit_bytes, " bytes"));
    }
  }
};

}  // namespace

absl::Status StatusFromErrno(int error, const std::string& path, const char* action) {
  const std::string text = absl::StrCat(path, ": ", strerror(error), " (", action, ")");
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, " — make room there, or choose another directory"));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ELOOP:
    case EXDEV:
      return absl::InvalidArgumentError(
          Roots().restricts() ? absl::StrCat(text,
                                             " — links are not followed beneath the project's "
                                             "roots: name the path that it leads to")
                              : text);
    case ENOENT:
      return absl::NotFoundError(text);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(text);
    case ENOTDIR:
    case EISDIR:
      return absl::FailedPreconditionError(text);
    default:
      return absl::UnavailableError(text);
  }
}

FileSystem* PosixFileSystem() {
  static Posix* const files = new Posix;
  return files;
}

absl::Status CreateFolders(FileSystem* files, const std::string& path) {
  // From the first part on; what exists is left as it is, even where it could not be created.
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end);
    if (!files->Exists(parent)) RETURN_IF_ERROR(files->CreateFolder(parent));
  }
  return files->CreateFolder(path);
}

absl::Status WriteAtomically(FileSystem* files, const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->CreateFile(temporary));
    RETURN_IF_ERROR(file->Append(text.data(), text.size()));
    RETURN_IF_ERROR(file->Sync());
    RETURN_IF_ERROR(file->Close());
    return files->RenameFile(temporary, path);
  };
  if (const absl::Status status = write(); !status.ok()) {
    files->RemoveAll(temporary).IgnoreError();  // the first error is the one to report
    return status;
  }
  return files->SyncFolder(ParentOf(path));
}

}  // namespace strata::checkpoint
