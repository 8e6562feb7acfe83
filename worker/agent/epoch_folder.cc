#include "worker/agent/epoch_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/agent/small_file.h"

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
  const std::string folder = absl::StrCat(directory, "/", kPrefix, epoch);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FileError(folder, "create", error.value());
  for (const auto& [earlier, path] : EpochFolders(directory)) {
    if (earlier < epoch)
      fs::remove_all(path, error);  // links are not followed; what stays behind harms nobody
  }
  return folder;
}

}  // namespace strata::worker
