#include "data/files/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/small_file.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

absl::Status WriteError(const std::string& path, const char* action, int error) {
  const absl::Status status = common::FileError(path, action, error);
  // Nothing that waiting would mend, as it would a service.
  if (absl::IsUnavailable(status)) return absl::AbortedError(status.message());
  return status;
}

absl::Status SyncFolder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const common::Descriptor opened(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return WriteError(folder, "open", errno);
  if (fsync(opened.get()) != 0 && errno != EINVAL) return WriteError(folder, "fsync", errno);
  return absl::OkStatus();
}

}  // namespace

OutputFile::OutputFile(std::string path, common::Descriptor file, int64_t kept)
    : path_(std::move(path)), file_(std::move(file)), written_(kept) {}

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path, int64_t kept) {
  common::Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.is_open()) return WriteError(path, "create", errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return WriteError(path, "lock", errno);
    return absl::AbortedError(
        absl::StrCat(path, ": another process is writing it — wait for it, or end it"));
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0) return WriteError(path, "stat", errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  if (status.st_size < kept) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", status.st_size, " bytes of ", kept, " written before"));
  }
  return OutputFile(path, std::move(file), kept);
}

absl::Status OutputFile::Append(const void* bytes, int64_t size) {
  buffer_.append(static_cast<const char*>(bytes), static_cast<size_t>(size));
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Skip(int64_t size) {
  return Append(std::string(static_cast<size_t>(size), '\0').data(), size);
}

absl::Status OutputFile::WriteAt(int64_t offset, const void* bytes, int64_t size) {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = pwrite(file_.get(), from, static_cast<size_t>(size), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return WriteError(path_, "write", errno);
    offset += done, from += done, size -= done;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::ReadAt(int64_t offset, int64_t size, void* out) const {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t done = pread(file_.get(), at, static_cast<size_t>(size), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return WriteError(path_, "read", errno);
    if (done == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", offset, ": it has become shorter"));
    }
    offset += done, at += done, size -= done;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  RETURN_IF_ERROR(WriteAt(written_, buffer_.data(), static_cast<int64_t>(buffer_.size())));
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  RETURN_IF_ERROR(Flush());
  if (fdatasync(file_.get()) != 0) return WriteError(path_, "fdatasync", errno);
  return absl::OkStatus();
}

absl::Status OutputFile::MoveTo(const std::string& path) {
  RETURN_IF_ERROR(Flush());
  if (ftruncate(file_.get(), written_) != 0) return WriteError(path_, "truncate", errno);
  if (fsync(file_.get()) != 0) return WriteError(path_, "fsync", errno);
  if (std::rename(path_.c_str(), path.c_str()) != 0) return WriteError(path, "rename", errno);
  path_ = path;
  return SyncFolder(path);
}

void RemoveFile(const std::string& path) { unlink(path.c_str()); }

}  // namespace strata::data
