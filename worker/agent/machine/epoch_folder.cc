#include "worker/agent/machine/epoch_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/path_roots.h"
#include "common/small_file.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;
constexpr char kPrefix[] = ".epoch-";

// Epoch and path of each epoch folder.
std::vector<std::pair<int64_t, fs::path>> EpochFolders(const std::string& directory) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t epoch = 0;
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &epoch) && epoch > 0) {
      found.emplace_back(epoch, entry->path());
    }
  }
  return found;
}

}  // namespace

int64_t NewestEpoch(const std::string& directory) {
  int64_t newest = 0;
  for (const auto& [epoch, path] : EpochFolders(directory)) newest = std::max(newest, epoch);
  return newest;
}

absl::StatusOr<std::string> FindEpochFolder(const std::string& directory, int64_t epoch) {
  std::string folder = absl::StrCat(directory, "/", kPrefix, epoch);
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder;
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " is gone: a later start of the job has taken its place"));
}

absl::StatusOr<std::string> MakeEpochFolder(const std::string& directory, int64_t epoch) {
  const std::string name = absl::StrCat(kPrefix, epoch);
  const std::string path = absl::StrCat(directory, "/", name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return common::FileError(directory, "create", error.value());
  const Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return common::FileError(directory, "open", errno);
  if (mkdirat(folder.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
    return common::FileError(path, "create", errno);
  }
  // What is there already may be a link that somebody has put there.
  const Descriptor made(
      openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.is_open()) return common::FileError(path, "open", errno);
  for (const auto& [earlier, old] : EpochFolders(directory)) {
    // What stays behind harms nobody.
    if (earlier < epoch) common::RemoveTree(folder.get(), old.filename().c_str());
  }
  return path;
}

}  // namespace strata::worker
