// A trainer's side of its socket: commands in, events out, and the end of the process when the
// agent is gone.
#ifndef STRATA_WORKER_TRAINER_CONTROL_H_
#define STRATA_WORKER_TRAINER_CONTROL_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/trainer/step_gate.h"

namespace strata::worker {

// A thread of its own reads the socket from the beginning, so that the agent's end is noticed
// whatever the rank is busy with. When it comes, the cancel hook runs, and a process that is still
// there after kGraceMs exits without further ado. Send may be called by any thread.
class Control {
 public:
  static constexpr int kGraceMs = 1000;
  static constexpr int kAgentGoneExit = 3;

  // `socket` belongs to it. `on_commit` is called on the reading thread, and must not block.
  Control(int socket, std::function<void(const v1::CommitCheckpoint&)> on_commit);
  // After the last event.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Blocks for the next task or start. Cancelled: the agent is gone.
  absl::StatusOr<v1::TrainerCommand> Next();

  // Sends whole events in order; blocks while the agent does not read. An agent that is gone is
  // noticed by the reading thread.
  void Send(const v1::TrainerEvent& event);
  void Notice(v1::Notice::Severity severity, const std::string& text);

  // What ends waiting elsewhere when the agent is gone; called at once when it is already. Null: no
  // longer. Does not return while the hook runs.
  void SetCancel(std::function<void(const absl::Status&)> cancel);

  StepGate& gate() { return gate_; }

 private:
  void Read();
  void Handle(const v1::TrainerCommand& command);
  void AgentGone(const std::string& why);

  const int socket_;
  const std::function<void(const v1::CommitCheckpoint&)> on_commit_;
  StepGate gate_;
  std::mutex send_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::TrainerCommand> commands_;
  bool gone_ = false;
  bool closing_ = false;
  std::mutex cancel_mutex_;
  std::function<void(const absl::Status&)> cancel_;
  std::thread reader_;  // last: it uses all of the above
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CONTROL_H_
