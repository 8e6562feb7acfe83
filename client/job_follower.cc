#include "client/job_follower.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "client/views/job_view.h"

namespace strata::client {
namespace {

constexpr double kFirstPause = 0.2;
constexpr double kLongestPause = 2;

// Whether a call that failed so may succeed later without anybody's doing.
bool MayPass(const absl::Status& status) {
  // Cancelled: by a server that ends; a client that gives up follows nothing any more.
  return status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsAborted(status) || absl::IsCancelled(status);
}

class Follower {
 public:
  Follower(ApiClient& client, const std::string& name, const FollowOptions& options,
           const FollowCallbacks& callbacks, const common::Clock& clock)
      : client_(client),
        name_(name),
        options_(options),
        callbacks_(callbacks),
        clock_(clock),
        after_step_(options.after_step),
        heard_at_(clock.Now()) {}

  absl::StatusOr<v1::Job> Follow() {
    double pause = kFirstPause;
    while (true) {
      const double began = heard_at_;
      const absl::Status ended = ReadStream();
      if (outcome_.has_value()) return *outcome_;
      if (stopped_) return absl::CancelledError("no longer followed");
      if (!MayPass(ended)) return ended;
      if (!ended.ok() && !answered_) return ended;
      if (!ended.ok() && !lost_) {
        lost_ = true;
        callbacks_.on_lost(ended);
      }
      if (clock_.Now() - heard_at_ > options_.give_up_seconds) return ended;
      if (heard_at_ > began) pause = kFirstPause;
      if (!Pause(pause)) return absl::CancelledError("no longer followed");
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  // Asks for the job, then reads its progress until the stream ends, the job does, or nobody wants
  // more. What the stream or the question failed with.
  absl::Status ReadStream() {
    if (const absl::Status asked = Ask(); !asked.ok()) return asked;
    const auto stream = client_.StreamProgress(name_, after_step_);
    double refreshed = clock_.Now();
    v1::JobProgress progress;
    while (true) {
      const auto event = stream->Next(options_.tick_seconds, &progress);
      if (!callbacks_.on_tick()) {
        stopped_ = true;
        return absl::OkStatus();
      }
      if (event == Stream<v1::JobProgress>::Event::kMessage) {
        refreshed = clock_.Now();
        Heard();
        if (Take(progress)) return absl::OkStatus();
        continue;
      }
      const bool ended = event == Stream<v1::JobProgress>::Event::kEnd;
      if (!ended && clock_.Now() - refreshed < options_.refresh_seconds) continue;
      if (ended && !stream->status().ok()) return stream->status();
      refreshed = clock_.Now();
      if (const absl::Status asked = Ask(); !asked.ok()) return asked;
      if (newest_.has_value() && IsTerminal(newest_->state())) {
        // A stream that still has something to tell would have done so by now.
        outcome_ = newest_;
        return absl::OkStatus();
      }
      if (ended) return absl::OkStatus();
    }
  }

  absl::Status Ask() {
    absl::StatusOr<v1::Job> job = client_.GetJob(name_);
    if (!job.ok()) return job.status();
    Heard();
    answered_ = true;
    const bool known = newest_.has_value() &&
                       newest_->resource_version() == job->resource_version() &&
                       newest_->state() == job->state();
    newest_ = *std::move(job);
    if (known) return absl::OkStatus();
    // The end is told by the stream, after the last records, or by ReadStream.
    if (!IsTerminal(newest_->state())) Tell(*newest_);
    return absl::OkStatus();
  }

  // True when it was the end.
  bool Take(const v1::JobProgress& progress) {
    if (progress.has_step()) after_step_ = progress.step().step();
    callbacks_.on_progress(progress);
    if (!progress.has_job()) return false;
    newest_ = progress.job();
    if (IsTerminal(newest_->state())) outcome_ = newest_;
    return outcome_.has_value();
  }

  void Tell(const v1::Job& job) {
    v1::JobProgress progress;
    *progress.mutable_job() = job;
    callbacks_.on_progress(progress);
  }

  void Heard() {
    heard_at_ = clock_.Now();
    if (std::exchange(lost_, false)) callbacks_.on_back();
  }

  bool Pause(double seconds) {
    const double end = clock_.Now() + seconds;
    while (clock_.Now() < end) {
      if (!callbacks_.on_tick()) return false;
      std::this_thread::sleep_for(std::chrono::duration<double>(
          std::clamp(end - clock_.Now(), 0.0, options_.tick_seconds)));
    }
    return true;
  }

  ApiClient& client_;
  const std::string name_;  // a copy: callbacks may change what it was taken from
  const FollowOptions& options_;
  const FollowCallbacks& callbacks_;
  const common::Clock& clock_;
  int64_t after_step_;
  double heard_at_;
  bool answered_ = false;
  bool lost_ = false;
  bool stopped_ = false;
  std::optional<v1::Job> newest_;
  std::optional<v1::Job> outcome_;
};

}  // namespace

absl::StatusOr<v1::Job> FollowJob(ApiClient& client, const std::string& name,
                                  const FollowOptions& options, const FollowCallbacks& callbacks,
                                  const common::Clock& clock) {
  return Follower(client, name, options, callbacks, clock).Follow();
}

}  // namespace strata::client
