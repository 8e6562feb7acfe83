#include "planner/cost/disk_choice.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

bool IsIn(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" ||
         (absl::StartsWith(path, directory) && path[directory.size()] == '/');
}

// Null: none. The nearest above `path`; of the same directory the later measurement.
const v1::DiskProfile* DiskOf(const v1::Profile& profile, const std::string& path) {
  const v1::DiskProfile* found = nullptr;
  for (const v1::DiskProfile& disk : profile.disks()) {
    if (!IsIn(path, disk.directory()) || disk.rates().empty()) continue;
    if (found == nullptr || disk.directory().size() >= found->directory().size()) found = &disk;
  }
  return found;
}

}  // namespace

absl::StatusOr<v1::DiskRate> ChooseDiskRate(const v1::Profile& profile,
                                            const std::vector<std::string>& directories,
                                            int64_t ranks_on_node) {
  struct Slowest {
    v1::DiskRate rate;
    size_t disks = 0;  // that were measured so
  };
  std::map<std::pair<int64_t, int64_t>, Slowest> by_shape;  // bytes in flight, depth
  for (const std::string& directory : directories) {
    const v1::DiskProfile* const disk = DiskOf(profile, directory);
    if (disk == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("the profile has no rates of the disk at ",
                                                        directory, ": strata calibrate --ssd ",
                                                        directory, " measures it"));
    }
    for (const v1::DiskRate& rate : disk->rates()) {
      Slowest& slowest = by_shape[{rate.request_bytes() * rate.depth(), rate.depth()}];
      if (slowest.disks++ == 0) {
        slowest.rate = rate;
        continue;
      }
      slowest.rate.set_read(std::min(slowest.rate.read(), rate.read()));
      slowest.rate.set_write(std::min(slowest.rate.write(), rate.write()));
      slowest.rate.set_mixed(std::min(slowest.rate.mixed(), rate.mixed()));
    }
  }
  const v1::DiskRate* best = nullptr;
  for (const auto& [shape, slowest] : by_shape) {
    if (slowest.disks < directories.size()) continue;
    if (best == nullptr || slowest.rate.mixed() > best->mixed()) best = &slowest.rate;
  }
  if (best == nullptr) {
    return absl::FailedPreconditionError(
        "the profile's disks were measured with different requests: strata calibrate --ssd with "
        "all of them measures them alike");
  }
  v1::DiskRate rate = *best;
  const double part = static_cast<double>(directories.size()) / static_cast<double>(ranks_on_node);
  rate.set_read(rate.read() * part);
  rate.set_write(rate.write() * part);
  rate.set_mixed(rate.mixed() * part);
  return rate;
}

}  // namespace strata::planner
