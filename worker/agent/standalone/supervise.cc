#include "worker/agent/standalone/supervise.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/logic/group_watch.h"

namespace strata::worker {
namespace {

constexpr int kLookMs = 1000;

class Supervision {
 public:
  // All but `group` are borrowed; `trainers`: those of the group.
  Supervision(TrainerGroup group, TrainerPoll* trainers, GroupTask* task, ClientLink* client,
              const common::Clock* clock)
      : client_(client),
        trainers_(trainers),
        task_(task),
        clock_(clock),
        watch_(std::move(group), task, clock, /*leased=*/false),
        interrupts_handled_(client->interrupts()) {}

  v1::Finished Run() {
    watch_.Begin();
    while (!watch_.done()) {
      Wait();
      watch_.HandleDeadline();
    }
    if (interrupted_) return Interrupted();
    if (client_->gone()) return Failed(1, "the client is gone");
    return watch_.Verdict().finished;
  }

 private:
  void Wait() {
    std::vector<pollfd> waiting;
    client_->AddTo(waiting);
    trainers_->AddTo(waiting, !client_->congested());
    int timeout_ms = kLookMs;
    if (watch_.deadline() >= 0) {
      const double left_ms = (watch_.deadline() - clock_->Now()) * 1e3;
      timeout_ms = std::clamp(static_cast<int>(left_ms) + 1, 0, kLookMs);
    }
    if (poll(waiting.data(), waiting.size(), timeout_ms) < 0) return;  // a signal: look again
    client_->Handle(waiting.data());
    HandleClient();
    trainers_->Handle(&waiting[ClientLink::kPolled]);
  }

  void HandleClient() {
    if (client_->gone()) watch_.KillAll();
    while (interrupts_handled_ < client_->interrupts()) {
      const bool first = interrupts_handled_++ == 0;
      if (first && !watch_.stopping() && task_->OnInterrupt(watch_.group())) continue;
      interrupted_ = true;
      watch_.KillAll();
    }
  }

  ClientLink* const client_;
  TrainerPoll* const trainers_;
  GroupTask* const task_;
  const common::Clock* const clock_;
  GroupWatch watch_;
  int interrupts_handled_;
  bool interrupted_ = false;  // and not in an orderly way
};

}  // namespace

v1::Finished Supervise(const TrainersOptions& options, GroupTask& task, ClientLink& client,
                       const common::Clock& clock) {
  TrainerPoll poll;
  absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> trainers = StartTrainers(options, &poll);
  if (!trainers.ok()) return Failed(1, std::string(trainers.status().message()));
  TrainerGroup group(options.ranks, *std::move(trainers));
  return Supervision(std::move(group), &poll, &task, &client, &clock).Run();
}

}  // namespace strata::worker
