#include "client/job_presenter.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exit_codes.h"
#include "client/views/job_view.h"
#include "common/units.h"
#include "protocol/task_event.h"

namespace strata::client {

using google::protobuf::util::TimeUtil;
using strata::v1::Finished;
using strata::v1::StandaloneEvent;

namespace {

constexpr double kLongestSilence = 10;  // where lines cannot be rewritten

}  // namespace

JobPresenter::JobPresenter(const v1::Job& job, Terminal& terminal, const common::Clock& clock)
    : terminal_(terminal),
      clock_(clock),
      name_(PlainName(job.name())),
      run_(name_, job.target_step() > 0 ? job.target_step() : job.spec().train().steps(),
           job.directory(), RunPresenter::Place::kCluster, terminal, clock),
      since_(clock.Now()),
      told_(clock.Now()) {}

void JobPresenter::OnProgress(const v1::JobProgress& progress) {
  if (progress.has_job()) return OnJob(progress.job());
  const std::optional<v1::StandaloneEvent> event = protocol::TaskEventOf(progress);
  if (!event.has_value()) return;
  told_ = clock_.Now();
  run_.OnEvent(*event);
}

void JobPresenter::OnJob(const v1::Job& job) {
  const bool same = job.state() == state_ && job.epoch() == epoch_ && job.reason() == reason_;
  if (same || IsTerminal(job.state())) return;
  const bool starts =
      job.state() == v1::Job::RUNNING && (state_ != v1::Job::RUNNING || job.epoch() != epoch_);
  state_ = job.state();
  epoch_ = job.epoch();
  reason_ = job.reason();
  since_ = told_ = clock_.Now();
  std::string line = absl::StrCat("job ", name_, ": ", v1::Job::State_Name(state_));
  const std::string placement = PlacementText(job);
  if (!placement.empty() && state_ != v1::Job::QUEUED) absl::StrAppend(&line, " on ", placement);
  if (!reason_.empty()) absl::StrAppend(&line, ": ", reason_);
  const bool trouble = state_ == v1::Job::RECOVERING;
  terminal_.Say(trouble ? terminal_.Paint(Style::kWarning, line) : line);
  if (starts) ShowStart(job);
}

void JobPresenter::ShowStart(const v1::Job& job) {
  StandaloneEvent event;
  v1::Started& started = *event.mutable_started();
  started.set_parameters(job.parameters());
  started.set_ranks(job.placement_size());
  *started.mutable_memory() = job.predicted_memory();
  started.set_steps(job.target_step());
  if (job.epoch() > 1 && job.has_checkpoint()) started.set_resumed_from(job.checkpoint().step());
  run_.OnEvent(event);
}

void JobPresenter::OnTick() {
  const double now = clock_.Now();
  if (!lost_ && state_ == v1::Job::RUNNING && run_.has_steps())
    return;  // its steps show that it lives
  if (now - since_ < 1) return;
  const std::string what = lost_ ? "the controller does not answer"
                                 : absl::StrCat("job ", name_, ": ", v1::Job::State_Name(state_));
  const std::string line =
      absl::StrCat(what, " … ", common::FormatSeconds(std::floor(now - since_)));
  terminal_.Transient(line);
  if (terminal_.options().animate || now - told_ < kLongestSilence) return;
  told_ = now;
  terminal_.Say(line);
}

void JobPresenter::OnLost() {
  lost_ = true;
  since_ = told_ = clock_.Now();
  terminal_.Error(terminal_.Paint(Style::kWarning,
                                  absl::StrCat("the controller does not answer; job ", name_,
                                               " does not need it, waiting until it is back")));
}

void JobPresenter::OnBack() {
  lost_ = false;
  since_ = told_ = clock_.Now();
  terminal_.Say("the controller is back");
}

int JobPresenter::Conclude(const v1::Job& job) {
  Finished finished;
  finished.set_outcome(job.state() == v1::Job::SUCCEEDED   ? Finished::SUCCEEDED
                       : job.state() == v1::Job::CANCELLED ? Finished::INTERRUPTED
                                                           : Finished::FAILED);
  finished.set_exit_code(job.state() == v1::Job::SUCCEEDED ? kExitDone : kExitFailed);
  finished.set_message(job.reason());
  if (job.has_checkpoint()) {
    run_.set_checkpoint(job.checkpoint().path());
  }
  if (job.has_create_time() && job.has_end_time()) {
    const auto took = job.end_time() - job.create_time();
    run_.set_took(static_cast<double>(TimeUtil::DurationToMicroseconds(took)) / 1e6);
  }
  run_.Conclude(finished);
  return finished.exit_code();
}

}  // namespace strata::client
