#include "data/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/path_roots.h"

namespace strata::data {
namespace {

absl::Status FromErrno(int error, const std::string& path, const char* action) {
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(path, ": no such file (part of the path is a file)"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(path, ": permission denied"));
    case ELOOP:
    case EXDEV:
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ": a link, or a link on the way to it, which is not followed beneath the project's "
          "roots: name the path that it leads to"));
    default:
      return absl::UnavailableError(absl::StrCat(path, ": ", strerror(error), " (", action, ")"));
  }
}

}  // namespace

absl::Status AtPath(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  common::Descriptor file(common::PathRoots::OfProcess().OpenFile(path, O_RDONLY | O_NONBLOCK));
  if (!file.is_open()) return FromErrno(errno, path, "open");
  struct stat status;
  if (fstat(file.get(), &status) != 0) return FromErrno(errno, path, "stat");
  if (S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  if (status.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  return InputFile(path, std::move(file), status.st_size);
}

absl::Status InputFile::ReadAt(int64_t offset, int64_t size, void* out) const {
  auto* at = static_cast<unsigned char*>(out);
  while (size > 0) {
    const ssize_t got = pread(file_.get(), at, static_cast<size_t>(size), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": cannot be read at byte ", offset, ": ", strerror(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset,
                                              ": it has become shorter since it was opened"));
    }
    offset += got, at += got, size -= got;
  }
  return absl::OkStatus();
}

}  // namespace strata::data
