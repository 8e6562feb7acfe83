// One trainer process: its start or its adoption, the socket to it, its progress file, its end.
#ifndef STRATA_WORKER_AGENT_TRAINER_PROCESS_H_
#define STRATA_WORKER_AGENT_TRAINER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/channel.h"
#include "worker/agent/descriptor.h"
#include "worker/shared/progress_reader.h"

namespace strata::worker {

// Descriptors that a trainer finds open (trainer.proto).
inline constexpr int kTrainerSocket = 3;
inline constexpr int kTrainerProgress = 4;

struct TrainerStart {
  std::string name;                    // what its command line begins with
  std::string executable;              // path of the program
  std::vector<std::string> arguments;  // after the name; told to people who look at processes
  std::string progress_path;           // made anew; empty: a file without a name
  std::string log_path;                // what it says is added there; empty: to our stderr
  std::vector<int> locks;              // descriptors that it keeps open; numbers from 16 on
};

// In a process group of its own, with the environment that
// trainer_environment.h tells. Used by one thread. Destruction
// kills and reaps it, unless it was let go.
class TrainerProcess {
 public:
  // A direct child.
  static absl::StatusOr<std::unique_ptr<TrainerProcess>> Start(const TrainerStart& start);
  // A process that an earlier agent started, without a socket yet. NotFound: it is gone (the number
  // may be another process's by now).
  static absl::StatusOr<std::unique_ptr<TrainerProcess>> Adopt(pid_t pid, uint64_t start_time,
                                                               const std::string& progress_path);
  // What is left of one that is gone: its progress file says how it ended.
  static std::unique_ptr<TrainerProcess> Remains(const std::string& progress_path);
  ~TrainerProcess();
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  pid_t pid() const { return pid_; }
  uint64_t start_time() const { return start_time_; }
  int process_descriptor() const { return process_.get(); }  // readable once it has ended
  bool connected() const { return socket_.is_open(); }
  int socket() const { return socket_.get(); }
  FrameSender& sender() { return sender_; }
  FrameReceiver& receiver() { return receiver_; }
  // Speaks on another socket from now on; `receiver` reads it and may have done so already.
  void Attach(Descriptor socket, FrameReceiver receiver);
  void Detach() { socket_.Close(); }

  // The trainer sees the end of its socket; what it still says can be read.
  void Hang();
  // SIGKILL to its process group, which also ends a stopped one.
  void Kill();
  bool killed() const { return killed_; }  // by Kill
  // From now on its life is not this process's business.
  void LetGo() { reaped_ = true; }

  // Reaps it if it has ended; true from then on.
  bool Reap();
  bool reaped() const { return reaped_; }
  // "exited with code 1", "was killed by signal 9 (Killed)". After it was reaped.
  std::string DescribeEnd() const;
  bool died_of_signal() const { return signal_ != 0; }
  // The last word of a process that is not our child, as its progress file holds it; nothing when
  // it was killed. After it was reaped.
  std::optional<v1::Ended> Outcome();
  // Stopped by a signal or a debugger.
  bool IsStopped() const;

  // Its progress file; null while there is nothing in it.
  ProgressReader* progress();
  // There is something in it that this build cannot read: the trainer may be of another build.
  bool progress_unknown() const { return progress_unknown_; }
  // Where it was last, "step 17, 'forward block 3'"; empty when it has not said.
  std::string DescribePosition();

 private:
  TrainerProcess(pid_t pid, bool child, Descriptor process, Descriptor socket, Descriptor progress);
  bool Ended() const;
  void ReadOutcome();

  const pid_t pid_;
  const bool child_;
  uint64_t start_time_ = 0;
  Descriptor process_, socket_, progress_;
  FrameSender sender_;
  FrameReceiver receiver_;
  std::unique_ptr<ProgressReader> reader_;
  bool progress_unknown_ = false;
  bool killed_ = false;
  bool reaped_ = false;
  int exit_code_ = 0;
  int signal_ = 0;  // -1: not known
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINER_PROCESS_H_
