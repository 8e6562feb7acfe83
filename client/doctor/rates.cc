#include "client/doctor/rates.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::client {

std::string DescribeDisk(const v1::DiskProfile& disk) {
  const auto best = std::max_element(
      disk.rates().begin(), disk.rates().end(),
      [](const v1::DiskRate& a, const v1::DiskRate& b) { return a.mixed() < b.mixed(); });
  if (best == disk.rates().end()) return "";
  return absl::StrFormat("%s: read %.2f, write %.2f, both %.2f GB/s at a depth of %d",
                         disk.backend(), best->read() / 1e9, best->write() / 1e9,
                         best->mixed() / 1e9, best->depth());
}

std::vector<Finding> JudgeRates(const absl::StatusOr<std::optional<v1::Profile>>& profile) {
  if (!profile.ok()) {
    return {
        {"profile", Health::kWarning, "cannot be read", std::string(profile.status().message())}};
  }
  std::vector<Finding> findings;
  if (!profile->has_value()) return findings;
  if ((*profile)->host_copy_rate() > 0) {
    findings.push_back({"memory copies", Health::kOk,
                        absl::StrFormat("%.1f GB/s", (*profile)->host_copy_rate() / 1e9), ""});
  }
  for (const v1::DiskProfile& disk : (*profile)->disks()) {
    const std::string rates = DescribeDisk(disk);
    if (rates.empty()) continue;
    Finding finding{absl::StrCat("disk ", disk.directory()), Health::kOk, rates, ""};
    if (!disk.direct()) {
      finding.health = Health::kWarning;
      finding.advice = "there is no direct I/O: name a folder on the disk itself";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace strata::client
