// One trainer process: its start or its adoption, the socket to it, its progress file, its end.
#ifndef STRATA_WORKER_AGENT_TRAINERS_TRAINER_PROCESS_H_
#define STRATA_WORKER_AGENT_TRAINERS_TRAINER_PROCESS_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/trainer.h"
#include "worker/agent/machine/channel.h"
#include "worker/agent/machine/descriptor.h"
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
  std::vector<std::string> variables;  // NAME=VALUE, in the place of the agent's own
};

// In a process group of its own, with the environment that trainer_environment.h tells.
class TrainerPoll;

class TrainerProcess final : public Trainer {
 public:
  // A direct child. `poll` (borrowed) has it until its destruction.
  static absl::StatusOr<std::unique_ptr<TrainerProcess>> Start(const TrainerStart& start,
                                                               TrainerPoll* poll);
  // A process that an earlier agent started, without a socket yet. NotFound: it is gone (the number
  // may be another process's by now).
  static absl::StatusOr<std::unique_ptr<TrainerProcess>> Adopt(pid_t pid, uint64_t start_time,
                                                               const std::string& progress_path,
                                                               TrainerPoll* poll);
  // What is left of one that is gone: its progress file says how it ended.
  static std::unique_ptr<TrainerProcess> Remains(const std::string& progress_path);
  ~TrainerProcess() override;
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  int64_t pid() const override { return pid_; }
  uint64_t start_time() const override { return start_time_; }

  bool connected() const override { return socket_.is_open() && !at_end_; }
  void Send(const v1::TrainerCommand& command) override;
  void Detach() override { socket_.Close(); }
  void Hang() override;
  // SIGKILL to its process group, which also ends a stopped one.
  void Kill() override;
  bool killed() const override { return killed_; }
  void LetGo() override { reaped_ = true; }

  bool reaped() const override { return reaped_; }
  std::string DescribeEnd() const override;
  bool died_of_signal() const override { return signal_ != 0; }
  std::optional<v1::Ended> Outcome() override;
  bool IsStopped() const override;
  bool IsInUninterruptibleSleep() const override;
  ProgressReader* progress() override;
  bool progress_unknown() const override { return progress_unknown_; }
  std::string Stack() const override;

  // Speaks on another socket from now on; `receiver` reads it and may have done so already: Listen.
  void Attach(Descriptor socket, FrameReceiver receiver);
  // Hands on whole events that were read.
  void Listen();

  // For a poll loop: adds kPolled descriptors; then, with what poll found at the same place, looks
  // at them. `hear`: false leaves what it says where it is, until there is room for it.
  static constexpr int kPolled = 2;
  void AddTo(std::vector<pollfd>& waiting, bool hear) const;
  void Handle(const pollfd* found);

 private:
  TrainerProcess(pid_t pid, bool child, Descriptor process, Descriptor socket, Descriptor progress,
                 TrainerPoll* poll);
  // Reads once; hands whole events on.
  void Hear();
  void Disconnected(const std::string& problem);
  // Reaps it if it has ended.
  bool Reap();
  bool Ended() const;
  void ReadOutcome();

  const pid_t pid_;
  const bool child_;
  TrainerPoll* const poll_;  // may be null
  uint64_t start_time_ = 0;
  Descriptor process_, socket_, progress_;
  FrameSender sender_;
  FrameReceiver receiver_;
  bool at_end_ = false;  // of what comes from the socket
  std::unique_ptr<ProgressReader> reader_;
  bool progress_unknown_ = false;
  bool killed_ = false;
  bool reaped_ = false;
  int exit_code_ = 0;
  int signal_ = 0;  // -1: not known
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_TRAINER_PROCESS_H_
