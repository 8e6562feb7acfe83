#include "common/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::common {
namespace {

absl::Status PathError(const std::string& path, const char* action) {
  return FileError(path, action, errno);
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int opened =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return PathError(folder, "open");
  const absl::Cleanup closer = [opened] { close(opened); };
  if (fsync(opened) != 0 && errno != EINVAL) return PathError(folder, "fsync");
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(const std::string& path, const char* action, int error) {
  const std::string text = absl::StrCat(path, ": ", strerror(error), " (", action, ")");
  switch (error) {
    case EACCES:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EPERM:
    case EROFS:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": not found"));
    return PathError(path, "open");
  }
  const absl::Cleanup closer = [file] { close(file); };
  std::string bytes;
  char piece[16 << 10];
  for (;;) {
    const ssize_t size = read(file, piece, sizeof(piece));
    if (size == 0) return bytes;
    if (size > 0) {
      bytes.append(piece, static_cast<size_t>(size));
    } else if (errno != EINTR) {
      return PathError(path, "read");
    }
  }
}

std::string TextOf(const std::string& path) { return ReadFile(path).value_or(""); }

absl::Status ReplaceFile(const std::string& path, const std::string& bytes, bool durable) {
  const std::string temporary = absl::StrCat(path, ".new");
  {
    const int file =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0) return PathError(path, "create");
    const absl::Cleanup closer = [file] { close(file); };
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno != EINTR) return PathError(temporary, "write");
      if (written > 0) done += static_cast<size_t>(written);
    }
    if (durable && fsync(file) != 0) return PathError(temporary, "fsync");
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return PathError(path, "rename");
  return durable ? SyncFolderOf(path) : absl::OkStatus();
}

}  // namespace strata::common
