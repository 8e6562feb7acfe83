#include "worker/agent/logic/epoch_fence.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr char kJobs[] = "jobs/";
constexpr size_t kLongestName = 63;

// What may stand in the name of a file.
bool IsPlain(const std::string& name) {
  return name.size() <= kLongestName && !absl::StartsWith(name, ".") &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

}  // namespace

std::string ShortJobName(const std::string& job) {
  if (!absl::StartsWith(job, kJobs)) return "";
  const std::string name = job.substr(sizeof(kJobs) - 1);
  return IsPlain(name) ? name : "";
}

bool SameEpoch(const v1::JobEpoch& a, const v1::JobEpoch& b) {
  return a.job() == b.job() && a.epoch() == b.epoch() &&
         (a.uid() == b.uid() || a.uid().empty() || b.uid().empty());
}

void EpochFence::Remember(const v1::JobEpoch& epoch) {
  int64_t& highest = highest_[KeyOf(epoch)];
  highest = std::max(highest, epoch.epoch());
  if (highest_.size() <= kMostJobs) return;
  const auto first = highest_.begin();
  highest_.erase(first->first == KeyOf(epoch) ? std::next(first) : first);
}

absl::Status EpochFence::Check(const v1::JobEpoch& epoch) const {
  const auto highest = highest_.find(KeyOf(epoch));
  if (highest == highest_.end() || epoch.epoch() > highest->second) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("epoch ", epoch.epoch(), " comes after epoch ", highest->second));
}

absl::Status CheckPrepare(const v1::PrepareEpoch& prepare, int devices, const EpochFence& fence) {
  const v1::JobEpoch& epoch = prepare.epoch();
  if (ShortJobName(epoch.job()).empty() || !IsPlain(epoch.uid()) || epoch.epoch() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", epoch.job(), "' (", epoch.uid(), ") is no job's name"));
  }
  RETURN_IF_ERROR(fence.Check(epoch));
  if (prepare.directory().empty() || prepare.directory()[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("directory: '", prepare.directory(), "' is no absolute path"));
  }
  const int own = prepare.own_size();
  if (own < 1 || own > devices || prepare.ranks() < own) {
    return absl::InvalidArgumentError(
        absl::StrCat(own, " of ", prepare.ranks(), " ranks for ", devices, " devices"));
  }
  std::set<int> ranks;
  for (const int rank : prepare.own()) {
    if (rank < 0 || rank >= prepare.ranks() || !ranks.insert(rank).second) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", prepare.ranks()));
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
