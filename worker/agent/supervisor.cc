#include "worker/agent/supervisor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

// Trainers end within one second of losing their socket (worker/trainer); then they are killed.
constexpr double kGraceSeconds = 2;
// A rank that has said its last word has only to give back what it holds.
constexpr double kExitSeconds = 10;
constexpr int kLookMs = 1000;

}  // namespace

Supervisor::Supervisor(ClientLink* client, TrainerGroup* group, GroupTask* task,
                       const common::Clock* clock)
    : client_(client),
      group_(group),
      task_(task),
      clock_(clock),
      ends_(group->size()),
      open_(group->size(), true),
      interrupts_handled_(client->interrupts()) {
  for (int rank = 0; rank < group->size(); ++rank) ends_[rank].name = task->NameOf(rank);
}

v1::Finished Supervisor::Run() {
  task_->Begin(*group_);
  while (!group_->AllReaped()) {
    Wait();
    HandleDeadline();
  }
  if (interrupted_) return Interrupted();
  if (client_->gone()) return Failed(1, "the client is gone");
  if (!task_failure_.empty()) return Failed(1, task_failure_);
  return Judge(ends_);
}

void Supervisor::Wait() {
  std::vector<pollfd> waiting;
  client_->AddTo(waiting);
  for (int rank = 0; rank < group_->size(); ++rank) {
    TrainerProcess& trainer = (*group_)[rank];
    int16_t events = client_->congested() ? 0 : POLLIN;
    if (!trainer.sender().idle()) events |= POLLOUT;
    waiting.push_back({open_[rank] ? trainer.socket() : -1, events, 0});
    waiting.push_back({trainer.reaped() ? -1 : trainer.process_descriptor(), POLLIN, 0});
  }
  int timeout_ms = kLookMs;
  if (kill_at_ >= 0) {
    const double left_ms = (kill_at_ - clock_->Now()) * 1e3;
    timeout_ms = std::clamp(static_cast<int>(left_ms) + 1, 0, kLookMs);
  }
  if (poll(waiting.data(), waiting.size(), timeout_ms) < 0) return;  // a signal: look again
  client_->Handle(waiting.data());
  HandleClient();
  for (int rank = 0; rank < group_->size(); ++rank) {
    const pollfd* const found = &waiting[ClientLink::kPolled + 2 * rank];
    if (found[0].revents & POLLOUT) {
      static_cast<void>((*group_)[rank].sender().Flush());
    }
    HandleTrainer(rank, (found[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0,
                  found[1].revents != 0);
  }
}

void Supervisor::HandleClient() {
  if (client_->gone()) group_->KillAll();
  while (interrupts_handled_ < client_->interrupts()) {
    const bool first = interrupts_handled_++ == 0;
    if (first && !stopping_ && task_->OnInterrupt(*group_)) continue;
    interrupted_ = true;
    group_->KillAll();
  }
}

void Supervisor::HandleTrainer(int rank, bool socket_ready, bool process_ready) {
  TrainerProcess& trainer = (*group_)[rank];
  if (socket_ready && open_[rank]) Hear(rank);
  if (!process_ready || !trainer.Reap()) return;
  while (open_[rank]) Hear(rank);  // its end of the socket is closed: this ends
  NoteEnd(rank);
}

void Supervisor::Hear(int rank) {
  TrainerProcess& trainer = (*group_)[rank];
  if (!trainer.receiver().Read()) open_[rank] = false;
  for (;;) {
    v1::TrainerEvent event;
    const absl::StatusOr<bool> whole = trainer.receiver().Next(&event);
    if (!whole.ok()) {
      open_[rank] = false;
      if (task_failure_.empty()) {
        task_failure_ = absl::StrCat(ends_[rank].name, ": ", std::string(whole.status().message()));
      }
      Stop();
      return;
    }
    if (!*whole) return;
    HandleEvent(rank, event);
  }
}

void Supervisor::HandleEvent(int rank, const v1::TrainerEvent& event) {
  if (event.event_case() == v1::TrainerEvent::kEnded) {
    ends_[rank].ended = event.ended();
    ends_[rank].order = ++noticed_;
    if (event.ended().outcome() == v1::Finished::FAILED) Stop();
    const bool all = std::all_of(ends_.begin(), ends_.end(),
                                 [](const RankEnd& end) { return end.ended.has_value(); });
    if (all && kill_at_ < 0) kill_at_ = clock_->Now() + kExitSeconds;
    return;
  }
  if (stopping_) return;
  if (const absl::Status status = task_->OnEvent(*group_, rank, event); !status.ok()) {
    task_failure_ = std::string(status.message());
    Stop();
  }
}

void Supervisor::NoteEnd(int rank) {
  TrainerProcess& trainer = (*group_)[rank];
  RankEnd& end = ends_[rank];
  // A trainer that is told to stop exits; one that dies of a signal we did not send is a cause.
  end.killed_by_us = trainer.killed() || (stopping_ && !trainer.died_of_signal());
  end.how = trainer.DescribeEnd();
  end.position = trainer.DescribePosition();
  if (end.ended.has_value()) return;
  end.order = ++noticed_;
  Stop();
}

void Supervisor::Stop() {
  if (stopping_) return;
  stopping_ = true;
  group_->HangAll();
  kill_at_ = clock_->Now() + kGraceSeconds;
}

void Supervisor::HandleDeadline() {
  if (kill_at_ < 0 || clock_->Now() < kill_at_) return;
  group_->KillAll();
}

}  // namespace strata::worker
