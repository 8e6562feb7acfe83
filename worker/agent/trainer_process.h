// One trainer process: its start, the socket to it, its progress file, its end.
#ifndef STRATA_WORKER_AGENT_TRAINER_PROCESS_H_
#define STRATA_WORKER_AGENT_TRAINER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/agent/channel.h"
#include "worker/agent/descriptor.h"
#include "worker/shared/progress_reader.h"

namespace strata::worker {

// Descriptors that a trainer finds open (trainer.proto).
inline constexpr int kTrainerSocket = 3;
inline constexpr int kTrainerProgress = 4;

struct TrainerStart {
  std::string binary;                  // path
  std::vector<std::string> arguments;  // after the name; told to people who look at processes
  std::string progress_path;           // made anew; empty: a file without a name
};

// A direct child in a process group of its own, with this process's environment. Used by one
// thread. Destruction kills and reaps it.
class TrainerProcess {
 public:
  static absl::StatusOr<std::unique_ptr<TrainerProcess>> Start(const TrainerStart& start);
  ~TrainerProcess();
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  pid_t pid() const { return pid_; }
  int process_descriptor() const { return process_.get(); }  // readable once it has ended
  int socket() const { return socket_.get(); }
  FrameSender& sender() { return sender_; }
  FrameReceiver& receiver() { return receiver_; }

  // The trainer sees the end of its socket and ends itself; what it still says can be read.
  void Hang();
  // SIGKILL to its process group, which also ends a stopped one.
  void Kill();
  bool killed() const { return killed_; }  // by Kill

  // Reaps it if it has ended; true from then on.
  bool Reap();
  bool reaped() const { return reaped_; }
  // "exited with code 1", "was killed by signal 9 (Killed)". After it was reaped.
  std::string DescribeEnd() const;
  bool died_of_signal() const { return signal_ != 0; }

  // Where it was last, "step 17, 'forward block 3'"; empty when it has not said.
  std::string DescribePosition();

 private:
  TrainerProcess(pid_t pid, Descriptor process, Descriptor socket, Descriptor progress);

  const pid_t pid_;
  Descriptor process_, socket_, progress_;
  FrameSender sender_;
  FrameReceiver receiver_;
  bool killed_ = false;
  bool reaped_ = false;
  int exit_code_ = 0;
  int signal_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINER_PROCESS_H_
