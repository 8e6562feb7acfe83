#include "worker/agent/logic/group_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

// Trainers end within one second of being told (worker/trainer); then they are killed.
constexpr double kGraceSeconds = 2;
// A rank that has said its last word has only to give back what it holds.
constexpr double kExitSeconds = 10;
// Events that a trainer keeps at most for a while without need.
constexpr uint64_t kUnacknowledged = 64;

}  // namespace

GroupWatch::GroupWatch(TrainerGroup group, GroupTask* task, const common::Clock* clock, bool leased)
    : group_(std::move(group)),
      task_(task),
      clock_(clock),
      leased_(leased),
      ends_(group_.size()),
      heard_(group_.size(), 0),
      acknowledged_(group_.size(), 0) {
  for (int place = 0; place < group_.size(); ++place) {
    ends_[place].name = task->NameOf(group_.rank(place));
    group_[place].SetListener(this, place);
    if (group_[place].reaped()) NoteEnd(place);
  }
}

void GroupWatch::OnAttached(int place) {
  if (stopping_) group_.EndAll("the group ends");
  AcknowledgeOne(place, true);
}

void GroupWatch::OnDisconnect(int place, const std::string& problem) {
  if (leased_ && !group_[place].reaped()) group_[place].Detach();  // it will come back
  if (problem.empty()) return;
  const std::string named = absl::StrCat(ends_[place].name, ": ", problem);
  if (task_failure_.empty()) task_failure_ = named;
  Stop(named);
}

void GroupWatch::OnEvent(int place, const v1::TrainerEvent& event) {
  if (event.sequence() != 0) {
    if (event.sequence() <= heard_[place]) return;  // told before, on another socket
    heard_[place] = event.sequence();
  }
  if (event.event_case() == v1::TrainerEvent::kEnded) {
    ends_[place].ended = event.ended();
    ends_[place].order = ++noticed_;
    if (event.ended().outcome() == v1::Finished::FAILED) Stop("another rank has failed");
    const bool all = std::all_of(ends_.begin(), ends_.end(),
                                 [](const RankEnd& end) { return end.ended.has_value(); });
    if (all && kill_at_ < 0) kill_at_ = clock_->Now() + kExitSeconds;
    if (all) Acknowledge();
    return;
  }
  if (stopping_) return;
  if (const absl::Status status = task_->OnEvent(group_, place, event); !status.ok()) {
    task_failure_ = std::string(status.message());
    Stop(task_failure_);
    return;
  }
  if (heard_[place] - acknowledged_[place] >= kUnacknowledged) AcknowledgeOne(place, false);
}

void GroupWatch::SetLease(double seconds) {
  lease_seconds_ = seconds;
  Acknowledge();
}

void GroupWatch::Acknowledge() {
  for (int place = 0; place < group_.size(); ++place) AcknowledgeOne(place, true);
}

void GroupWatch::AcknowledgeOne(int place, bool always) {
  if (!leased_ || !group_[place].connected()) return;
  const uint64_t settled = stopping_ ? heard_[place] : task_->Settled(place, heard_[place]);
  if (!always && settled == acknowledged_[place]) return;
  acknowledged_[place] = settled;
  v1::TrainerCommand command;
  command.mutable_acknowledge()->set_sequence(settled);
  command.mutable_acknowledge()->set_lease_seconds(lease_seconds_);
  group_[place].Send(command);
}

void GroupWatch::NoteEnd(int place) {
  Trainer& trainer = group_[place];
  RankEnd& end = ends_[place];
  // A trainer that is told to stop exits; one that dies of a signal we did not send is a cause.
  end.killed_by_us = trainer.killed() || (stopping_ && !trainer.died_of_signal());
  end.how = trainer.DescribeEnd();
  if (const ProgressView* const progress = trainer.progress()) {
    end.position = progress->DescribePosition();
  }
  if (!end.ended.has_value()) end.ended = trainer.Outcome();
  if (end.ended.has_value() && end.ended->outcome() != v1::Finished::FAILED) return;
  if (end.order == 0) end.order = ++noticed_;
  Stop("another rank is gone");
}

void GroupWatch::Stop(const std::string& reason) {
  if (stopping_) return;
  stopping_ = true;
  group_.EndAll(reason);
  kill_at_ = clock_->Now() + kGraceSeconds;
}

void GroupWatch::KillAll() {
  stopping_ = true;
  group_.KillAll();
}

void GroupWatch::HandleDeadline() {
  if (kill_at_ >= 0 && clock_->Now() >= kill_at_) group_.KillAll();
}

Judgement GroupWatch::Verdict() const {
  Judgement judgement = Judge(ends_);
  // A task that could not go on is the cause, unless a trainer gave it.
  if (!task_failure_.empty()) judgement = {Failed(1, task_failure_), -1, false};
  return judgement;
}

}  // namespace strata::worker
