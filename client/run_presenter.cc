#include "client/run_presenter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/curve.h"
#include "common/units.h"

namespace strata::client {

using strata::v1::Finished;
using strata::v1::Notice;
using strata::v1::StandaloneEvent;

RunPresenter::RunPresenter(std::string name, int64_t steps, std::string job_directory, Place place,
                           Terminal& terminal, const common::Clock& clock)
    : terminal_(terminal),
      clock_(clock),
      name_(std::move(name)),
      steps_(steps),
      job_directory_(std::move(job_directory)),
      place_(place),
      progress_(steps),
      began_(clock.Now()) {}

RunPresenter::RunPresenter(const strata::v1::JobSpec& job, const std::string& job_directory,
                           Terminal& terminal, const common::Clock& clock)
    : RunPresenter(job.name(), job.train().steps(), job_directory, Place::kTerminal, terminal,
                   clock) {
  terminal_.Say(absl::StrCat("job ", name_, ": starting ", job.resources().ranks(),
                             job.resources().ranks() == 1 ? " rank" : " ranks", " in ",
                             job_directory));
}

void RunPresenter::OnEvent(const StandaloneEvent& event) {
  switch (event.event_case()) {
    case StandaloneEvent::kStarted:
      return OnStarted(event.started());
    case StandaloneEvent::kStep:
      return OnStep(event.step());
    case StandaloneEvent::kEvaluation:
      validation_loss_ = event.evaluation().validation_loss();
      return terminal_.Say(absl::StrFormat("step %d  validation loss %s  (%s)",
                                           event.evaluation().step(), FormatLoss(*validation_loss_),
                                           common::FormatSeconds(event.evaluation().seconds())));
    case StandaloneEvent::kCheckpoint:
      checkpoint_ = event.checkpoint().path();
      return terminal_.Say(
          absl::StrCat("step ", event.checkpoint().step(), "  checkpoint ", checkpoint_));
    case StandaloneEvent::kNotice: {
      const bool warning = event.notice().severity() == Notice::SEVERITY_WARNING;
      const std::string text = absl::StrCat(warning ? "warning: " : "", event.notice().text());
      if (warning) return terminal_.Error(terminal_.Paint(Style::kWarning, text));
      return terminal_.Say(text);
    }
    default:
      return;  // Finished is told by Conclude; other events belong to other tasks
  }
}

void RunPresenter::OnStarted(const strata::v1::Started& started) {
  started_ = true;
  if (started.steps() > 0) steps_ = started.steps();
  progress_ = Progress(steps_);
  std::string memory;
  for (const auto& tier : started.memory()) {
    absl::StrAppend(&memory, ", ", tier.tier(), " memory ",
                    common::FormatBytes(static_cast<double>(tier.predicted_bytes())), " per rank");
  }
  terminal_.Say(absl::StrCat(common::FormatDecimal(static_cast<double>(started.parameters()), ""),
                             " parameters on ", started.ranks(),
                             started.ranks() == 1 ? " rank" : " ranks", memory));
  if (started.has_resumed_from()) {
    terminal_.Say(absl::StrCat("resumed from the checkpoint of step ", started.resumed_from()));
  }
  for (const std::string& message : started.messages()) terminal_.Say(message);
}

void RunPresenter::OnStep(const strata::v1::StepRecord& record) {
  progress_.Add(record);
  // After a restart of the ranks the steps since the last checkpoint come again.
  if (!losses_.empty() && record.step() <= last_step_) {
    losses_.resize(static_cast<size_t>(std::max<int64_t>(0, record.step() - first_step_)));
    while (!unapplied_.empty() && unapplied_.back() >= record.step()) unapplied_.pop_back();
  }
  if (losses_.empty()) first_step_ = record.step();
  last_step_ = record.step();
  losses_.push_back(record.loss());
  if (!std::isfinite(record.loss()) || !std::isfinite(record.grad_norm())) {
    unapplied_.push_back(record.step());
  }
  if (record.has_validation_loss()) validation_loss_ = record.validation_loss();
  if (progress_.DueAt(clock_.Now())) {
    terminal_.Say(progress_.Line());
  } else {
    terminal_.Transient(progress_.Line());
  }
}

void RunPresenter::OnIdle() {
  if (!losses_.empty()) return;
  terminal_.Transient(absl::StrCat(started_ ? "first step … " : "starting … ",
                                   common::FormatSeconds(std::max(1.0, clock_.Now() - began_))));
}

void RunPresenter::OnSignal() {
  ++signals_;
  terminal_.Say(signals_ > 1      ? "interrupted again: ending at once"
                : losses_.empty() ? "interrupted before the first step: ending"
                                  : "interrupted: committing a checkpoint (again: end at once)");
}

void RunPresenter::DrawLosses() {
  if (losses_.size() < 2) return;
  CurveOptions options;
  options.width = std::min(72, terminal_.options().width - 12);
  options.unicode = terminal_.options().unicode;
  options.first_x = static_cast<double>(first_step_);
  options.last_x = static_cast<double>(last_step_);
  std::string text = "\nloss by step\n";
  for (const std::string& line : DrawCurve(losses_, options)) absl::StrAppend(&text, line, "\n");
  terminal_.Say(text);
}

std::string RunPresenter::UnappliedSteps() const {
  if (unapplied_.empty()) return "";
  return absl::StrCat(", ", unapplied_.size(), " of ", losses_.size(),
                      " steps were not applied (not finite)");
}

std::string RunPresenter::Summary(const Finished& finished) const {
  nlohmann::json summary = {{"name", name_},
                            {"state", finished.outcome() == Finished::SUCCEEDED     ? "SUCCEEDED"
                                      : finished.outcome() == Finished::INTERRUPTED ? "CANCELLED"
                                                                                    : "FAILED"},
                            {"step", last_step_},
                            {"directory", job_directory_},
                            {"checkpoint", checkpoint_},
                            {"reason", finished.message()}};
  if (!losses_.empty()) summary["loss"] = losses_.back();
  if (validation_loss_.has_value()) summary["validation_loss"] = *validation_loss_;
  return summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void RunPresenter::Conclude(const Finished& finished) {
  if (finished.outcome() != Finished::FAILED) DrawLosses();
  const std::string took = common::FormatSeconds(took_.value_or(clock_.Now() - began_));
  if (finished.outcome() == Finished::FAILED) {
    std::string next;
    if (place_ == Place::kCluster) {
      next = absl::StrCat(" — see strata logs ", name_, " and strata describe job ", name_);
    } else if (!checkpoint_.empty()) {
      next = absl::StrCat(" — its newest checkpoint is ", checkpoint_,
                          ": go on with the same command and --resume");
    }
    return terminal_.Error(terminal_.Paint(
        Style::kBad, absl::StrCat("job ", name_, " FAILED after ", took, UnappliedSteps(), ": ",
                                  finished.message(), next)));
  }
  if (finished.outcome() == Finished::INTERRUPTED && place_ == Place::kTerminal &&
      losses_.empty()) {
    return terminal_.Error(absl::StrCat("job ", name_, " interrupted before its first step, with ",
                                        "nothing to commit — start it with the same command"));
  }
  if (finished.outcome() == Finished::INTERRUPTED) {
    return terminal_.Error(
        place_ == Place::kCluster
            ? absl::StrCat("job ", name_, " CANCELLED at step ", last_step_, UnappliedSteps())
            : absl::StrCat("job ", name_, " interrupted at step ", last_step_, UnappliedSteps(),
                           " — go on with the same command and --resume"));
  }
  std::string text = terminal_.Paint(Style::kGood, absl::StrCat("job ", name_, " SUCCEEDED"));
  absl::StrAppend(&text, " in ", took);
  if (!losses_.empty()) absl::StrAppend(&text, ", loss ", FormatLoss(losses_.back()));
  if (validation_loss_.has_value()) {
    absl::StrAppend(&text, ", validation loss ", FormatLoss(*validation_loss_));
  }
  absl::StrAppend(&text, UnappliedSteps());
  terminal_.Say(text);
  if (!checkpoint_.empty()) {
    terminal_.Say(absl::StrCat("next: strata generate --from ", checkpoint_, " --prompt TEXT"));
  }
}

}  // namespace strata::client
