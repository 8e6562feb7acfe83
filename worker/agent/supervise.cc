#include "worker/agent/supervise.h"

#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/group_watch.h"

namespace strata::worker {
namespace {

constexpr int kLookMs = 1000;

class Supervision {
 public:
  Supervision(TrainerGroup group, GroupTask* task, ClientLink* client, const common::Clock* clock)
      : client_(client),
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
    watch_.AddTo(waiting, !client_->congested());
    int timeout_ms = kLookMs;
    if (watch_.deadline() >= 0) {
      const double left_ms = (watch_.deadline() - clock_->Now()) * 1e3;
      timeout_ms = std::clamp(static_cast<int>(left_ms) + 1, 0, kLookMs);
    }
    if (poll(waiting.data(), waiting.size(), timeout_ms) < 0) return;  // a signal: look again
    client_->Handle(waiting.data());
    HandleClient();
    watch_.Handle(&waiting[ClientLink::kPolled]);
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
  GroupTask* const task_;
  const common::Clock* const clock_;
  GroupWatch watch_;
  int interrupts_handled_;
  bool interrupted_ = false;  // and not in an orderly way
};

}  // namespace

v1::Finished Supervise(const TrainerGroup::Options& options, GroupTask& task, ClientLink& client,
                       const common::Clock& clock) {
  absl::StatusOr<TrainerGroup> group = TrainerGroup::Start(options);
  if (!group.ok()) return Failed(1, std::string(group.status().message()));
  return Supervision(*std::move(group), &task, &client, &clock).Run();
}

}  // namespace strata::worker
