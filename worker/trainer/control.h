// A trainer's side of its socket: commands in, events out, and the end of the process when nobody
// looks after it any more.
#ifndef STRATA_WORKER_TRAINER_CONTROL_H_
#define STRATA_WORKER_TRAINER_CONTROL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"
#include "protocol/frames.h"
#include "worker/trainer/mailbox.h"
#include "worker/trainer/outbox.h"
#include "worker/trainer/step_gate.h"

namespace strata::worker {

// A thread of its own serves the socket from the beginning, so that the agent's end is noticed
// whatever the rank is busy with. A task without a lease ends with the socket; with one the trainer
// goes on alone, connects to an agent again, and ends when it has heard of none for as long as the
// lease lasts (trainer.proto). At the end the cancel hook runs, and a process that is still there
// after kGraceMs exits without further ado.
class Control {
 public:
  static constexpr int kGraceMs = 1000;
  static constexpr int kAgentGoneExit = 3;

  // `socket` belongs to it. `mail` is borrowed; its receivers run on the control thread and must
  // not block.
  Control(int socket, CheckpointMail* mail);
  // After the last event: waits until the agent has all events, or is gone.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Blocks for the next task or start. Cancelled: the agent is gone.
  absl::StatusOr<v1::TrainerCommand> Next();

  // Any thread: sends whole events in order; blocks while much waits for the agent. An agent that
  // is gone is noticed by the control thread.
  void Send(const v1::TrainerEvent& event);
  void Notice(v1::Notice::Severity severity, const std::string& text);

  // What ends waiting elsewhere when the agent is gone; called at once when it is already. Null: no
  // longer. Does not return while the hook runs.
  void SetCancel(std::function<void(const absl::Status&)> cancel);

  StepGate& gate() { return gate_; }

 private:
  void Serve();
  // Waits for something to do, and does it; false once the agent is gone (why_).
  bool Turn();
  // The connection has ended; false when that is the end.
  bool Disconnected(const std::string& why);
  void Reconnect();
  // Reads once, and handles whole commands.
  bool Receive();
  bool Handle(const v1::TrainerCommand& command);
  void TakeLease(const v1::TrainerTask& task);
  // Writes what the socket takes.
  void Flush();
  void Enqueue(const v1::TrainerEvent& event);
  void Wake();
  void AgentGone();

  // Of the control thread.
  const common::MonotonicClock clock_{};
  int socket_;
  protocol::FrameDecoder decoder_;
  v1::Lease lease_;
  v1::TrainerHello hello_;
  double heard_ = 0;  // clock time of the agent's last word
  std::string why_;   // the agent is gone

  CheckpointMail* const mail_;
  StepGate gate_;
  const int wake_;  // eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::TrainerCommand> commands_;
  Outbox outbox_;
  bool gone_ = false;
  bool closing_ = false;
  std::mutex cancel_mutex_;
  std::function<void(const absl::Status&)> cancel_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CONTROL_H_
