#include "controller/service/watch_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_record.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"

namespace strata::controller {

bool WatchHub::Watch::Wants(const v1::Job& job) const {
  return (name.empty() || name == job.name()) && sees(job);
}

bool WatchHub::MissedSome(const Core& core, const std::string& name, int64_t version) const {
  if (version > core.resource_version()) return true;  // of another database
  if (version >= floor_) return false;
  // Older than what is kept; but perhaps nothing has happened since.
  if (!name.empty()) return core.FindJob(name)->resource_version() > version;
  const std::vector<const v1::JobRecord*> jobs = core.Jobs();
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const v1::JobRecord* job) { return job->resource_version() > version; });
}

void WatchHub::Subscribe(const Core& core, const std::string& name, int64_t version,
                         Watcher watcher, Sees sees) {
  if (watches_.size() >= options_.most_watchers) {
    return watcher->End(Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                                absl::StrCat(watches_.size(), " streams watch already")));
  }
  if (!name.empty() && core.FindJob(name) == nullptr) {
    return watcher->End(Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                                absl::StrCat("there is no job ", ShortName(name))));
  }
  if (MissedSome(core, name, version)) {
    return watcher->End(Refusal(
        absl::StatusCode::kOutOfRange, "RESOURCE_VERSION_UNKNOWN",
        absl::StrCat("changes after version ", version, " are not known any more (versions ",
                     floor_, " to ", core.resource_version(),
                     " are): list the jobs, then watch from the list's version")));
  }
  Watch watch = {name, std::move(watcher), std::move(sees)};
  for (const auto& change : changes_) {
    if (change->resource_version() <= version || !watch.Wants(change->job())) continue;
    if (!watch.watcher->Push(change)) return;
  }
  watches_.push_back(std::move(watch));
}

void WatchHub::Keep(std::shared_ptr<const v1::WatchJobsResponse> change) {
  // What loading itself changed comes after OnLoad, with versions that loading has counted.
  if (changes_.empty()) floor_ = std::min(floor_, change->resource_version() - 1);
  bytes_ += change->ByteSizeLong();
  changes_.push_back(std::move(change));
  while (changes_.size() > options_.most_changes || bytes_ > options_.most_bytes) {
    bytes_ -= changes_.front()->ByteSizeLong();
    floor_ = changes_.front()->resource_version();
    changes_.pop_front();
  }
}

void WatchHub::OnEffects(const Core& /*core*/, const Effects& effects) {
  for (const v1::JobRecord& job : effects.changed) {
    auto change = std::make_shared<v1::WatchJobsResponse>();
    change->set_resource_version(job.resource_version());
    *change->mutable_job() = ToJob(job);
    std::erase_if(watches_, [&](const Watch& watch) {
      return watch.Wants(change->job()) && !watch.watcher->Push(change);
    });
    Keep(std::move(change));
  }
}

void WatchHub::OnTick(const Core& core) {
  std::erase_if(watches_, [](const Watch& watch) { return !watch.watcher->alive(); });
  if (clock_->Now() < next_bookmark_) return;
  next_bookmark_ = clock_->Now() + options_.bookmark_seconds;
  auto bookmark = std::make_shared<v1::WatchJobsResponse>();
  bookmark->set_resource_version(core.resource_version());
  std::erase_if(watches_, [&](const Watch& watch) {
    return watch.watcher->idle() && !watch.watcher->Push(bookmark);
  });
}

void WatchHub::OnLoad(const Core& core) {
  // What was pushed was durable; versions go on from there.
  changes_.clear();
  bytes_ = 0;
  floor_ = core.resource_version();
}

void WatchHub::OnStop() {
  for (const Watch& watch : watches_) {
    watch.watcher->End(absl::UnavailableError("the controller is shutting down"));
  }
  watches_.clear();
}

}  // namespace strata::controller
