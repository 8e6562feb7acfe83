#include "worker/agent/machine/job_folder.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/small_file.h"

namespace strata::worker {
namespace {

constexpr mode_t kFolderMode = 0777;  // less the umask

}  // namespace

absl::StatusOr<JobFolder> JobFolder::Open(const common::PathRoots& roots, const std::string& path) {
  if (!roots.Covers(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": lies under none of the project's roots that there are on this node"));
  }
  Descriptor folder(roots.MakeFolders(path, kFolderMode));
  if (folder.is_open()) return JobFolder(path, std::move(folder));
  const int error = errno;
  const absl::Status status = common::FileError(path, "create", error);
  const bool link = roots.restricts() && (error == ELOOP || error == ENOTDIR || error == EXDEV);
  if (!link && absl::IsInvalidArgument(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(),
                     " — let the job's user write there, or name another checkpoint.directory"));
  }
  if (!link) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(),
                   ": a link, or a link on the way to it, which is not followed beneath the "
                   "project's roots: name the path that it leads to"));
}

std::string JobFolder::held_path() const { return absl::StrCat("/proc/self/fd/", folder_.get()); }

absl::Status JobFolder::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  // The descriptor's number ends where the path does, or goes on with a slash.
  return absl::Status(status.code(),
                      absl::StrReplaceAll(status.message(), {{held_path() + "/", path_ + "/"},
                                                             {held_path() + ":", path_ + ":"}}));
}

}  // namespace strata::worker
