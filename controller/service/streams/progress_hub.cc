#include "controller/service/streams/progress_hub.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_record.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"

namespace strata::controller {

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

bool ProgressPosition::Covers(const v1::JobProgress& progress) const {
  switch (progress.progress_case()) {
    case v1::JobProgress::kStep:
      return progress.step().epoch() < epoch ||
             ((progress.step().epoch() == epoch || epoch == 0) && progress.step().step() <= step);
    case v1::JobProgress::kEvaluation:
      return progress.evaluation().step() < step;
    case v1::JobProgress::kCheckpoint:
      return progress.checkpoint().step() < step;
    default:
      return false;
  }
}

void ProgressHub::Subscribe(const Core& core, const std::string& job,
                            const ProgressPosition& position, Follower follower) {
  const v1::JobRecord* found = core.FindJob(job);
  if (found == nullptr) {
    return follower->End(Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                                 absl::StrCat("there is no job ", ShortName(job))));
  }
  if (followers_ >= options_.most_followers) {
    return follower->End(Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                                 absl::StrCat(followers_, " streams follow jobs already")));
  }
  const auto known = jobs_.find(job);
  if (known != jobs_.end()) {
    for (const Message& message : known->second.recent) {
      if (!position.Covers(*message) && !follower->Push(message)) return;
    }
  }
  auto state = std::make_shared<v1::JobProgress>();
  *state->mutable_job() = ToJob(*found);
  if (!follower->Push(std::move(state))) return;
  if (IsTerminal(found->state())) return follower->End(absl::OkStatus());
  ++followers_;
  jobs_[job].followers.push_back(std::move(follower));
}

void ProgressHub::Publish(Followed& followed, const Message& message) {
  std::erase_if(followed.followers,
                [&](const Follower& follower) { return !follower->Push(message); });
}

void ProgressHub::OnEffects(const Core& core, const Effects& effects) {
  for (const v1::JobRecord& job : effects.deleted) {
    const auto known = jobs_.find(job.name());
    if (known == jobs_.end()) continue;
    for (const Follower& follower : known->second.followers) follower->End(absl::OkStatus());
    jobs_.erase(known);
  }
  for (const Effects::Progress& progress : effects.progress) {
    if (core.FindJob(progress.job) == nullptr) continue;
    Followed& followed = jobs_[progress.job];
    const Message message = std::make_shared<v1::JobProgress>(progress.progress);
    Publish(followed, message);
    followed.recent.push_back(message);
    if (followed.recent.size() > options_.most_recent) followed.recent.pop_front();
  }
  for (const v1::JobRecord& job : effects.changed) {
    const auto known = jobs_.find(job.name());
    if (known == jobs_.end() || effects.IsDeleted(job)) continue;
    Followed& followed = known->second;
    auto message = std::make_shared<v1::JobProgress>();
    *message->mutable_job() = ToJob(job);
    Publish(followed, message);
    if (!IsTerminal(job.state())) continue;
    for (const Follower& follower : followed.followers) follower->End(absl::OkStatus());
    followed.followers.clear();
    followed.ended_at = clock_->Now();
  }
}

void ProgressHub::OnTick(const Core& core) {
  const double now = clock_->Now();
  std::erase_if(jobs_, [&](const auto& entry) {
    const Followed& followed = entry.second;
    const bool over = followed.ended_at >= 0 && now > followed.ended_at + options_.keep_seconds;
    return followed.followers.empty() &&
           (over || followed.recent.empty() || core.FindJob(entry.first) == nullptr);
  });
  followers_ = 0;
  for (auto& [name, followed] : jobs_) {
    std::erase_if(followed.followers, [](const Follower& follower) { return !follower->alive(); });
    followers_ += followed.followers.size();
  }
}

void ProgressHub::OnStop() {
  for (auto& [name, followed] : jobs_) {
    for (const Follower& follower : followed.followers) {
      follower->End(absl::UnavailableError("the controller is shutting down"));
    }
  }
  jobs_.clear();
}

}  // namespace strata::controller
