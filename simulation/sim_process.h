// A process that an agent has started: one that plans, or a rank. As worker/trainer seen from
// outside: it speaks trainer.proto, goes on without its agent for its lease, and shows where it is.
#ifndef STRATA_SIMULATION_SIM_PROCESS_H_
#define STRATA_SIMULATION_SIM_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "controller/logic/job_entry.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/shared/progress_view.h"

namespace strata::simulation {

using controller::EpochKey;

class Cluster;
class SimNode;
class SimTrainer;

// A socket between a process and an agent. Both sides let go of it; bytes keep their order.
struct Conversation {
  SimTrainer* agent = nullptr;  // its end; null when it has let go
  double due_up = 0, due_down = 0;
};

class SimProcess final : public worker::ProgressView,
                         public std::enable_shared_from_this<SimProcess> {
 public:
  struct Identity {
    int64_t pid = 0;
    EpochKey key;
    int rank = 0;
    int device = -1;  // negative: it plans, and uses none
  };

  SimProcess(Cluster& cluster, SimNode& node, const Identity& identity);

  const Identity& identity() const { return identity_; }
  bool plans() const { return identity_.device < 0; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  bool by_signal() const { return by_signal_; }
  // As its progress file keeps it.
  const std::optional<v1::Ended>& last_word() const { return last_word_; }
  // Of the agent that lives; null: none knows it.
  SimTrainer* handle() const { return handle_; }
  void SetHandle(SimTrainer* handle) { handle_ = handle; }

  // The agent's side of its socket.
  void Connect(const std::shared_ptr<Conversation>& conversation, bool again);
  void Receive(const std::shared_ptr<Conversation>& conversation,
               const v1::TrainerCommand& command);
  void OnSocketEnd(const std::shared_ptr<Conversation>& conversation);
  bool connected() const { return conversation_ != nullptr; }

  // What happens to it.
  void Kill();                   // SIGKILL, which takes a moment
  void Exit(bool by_signal);     // it is gone
  void Freeze(bool frozen);      // with its machine
  void Stop();                   // SIGSTOP
  void Hang() { hung_ = true; }  // in its own work
  void OnPeerLost();

  // The computation of all ranks (Cluster).
  bool Computes() const;  // it is at work, and nothing is wrong with it
  bool MayBegin(int64_t step) const;
  void OnAllStarted();
  void OnStepDone(int64_t step, bool save, bool final_step);
  bool started() const { return started_; }

  // ProgressView
  int64_t step() const override;
  uint64_t ticks() const override;
  worker::Phase phase() const override { return phase_; }
  double phase_begin() const override { return phase_begin_; }
  int64_t checkpoint_step() const override;
  bool in_storage_operation() const override;
  double storage_tick() const override;
  std::vector<Activity> Activities() const override;
  uint64_t Begun(const std::string& group, int stream) const override;
  std::string DescribePosition() const override;

 private:
  static constexpr size_t kWrittenKept = 4;

  bool Still() const { return frozen_ || stopped_; }
  // Something that it does: later while it stands still, never when it is gone.
  void Do(std::function<void()> what);
  void After(double delay, std::function<void()> what);
  void Awake();
  void SetPhase(worker::Phase phase);

  void Send(v1::TrainerEvent event);
  void Transmit(const v1::TrainerEvent& event);
  void Acknowledge(uint64_t sequence);
  void Remember(const v1::TrainerEvent& event);
  void SeekAgent();
  void CheckLease();
  void End(v1::Finished::Outcome outcome, bool echo, const std::string& message,
           const v1::CheckpointProblem* problem = nullptr);

  void Obey(const v1::TrainerCommand& command);
  void OnTask(const v1::TrainerTask& task);
  void Plan();
  void Prepare();
  void Load();
  std::optional<v1::CheckpointProblem> CheckpointToBeginWith(bool planning);
  void StopAsked();
  void ObeyLastStep();

  bool BetweenSteps() const;
  void BeginSave(int64_t step);
  void Written(int64_t step);
  void AdvanceCommits();
  void WriteManifest(int64_t step);
  void OnAnswer(const v1::CheckpointAnswer& answer);
  void FinishWith(v1::Finished::Outcome outcome);
  void FinishIfDone();

  Cluster& cluster_;
  SimNode& node_;
  const Identity identity_;
  SimTrainer* handle_ = nullptr;  // of the agent that lives and knows it
  std::shared_ptr<Conversation> conversation_;

  bool alive_ = true, by_signal_ = false;
  bool frozen_ = false, stopped_ = false, hung_ = false;
  std::deque<v1::TrainerCommand> inbox_;
  std::deque<std::function<void()>> put_off_;
  worker::Phase phase_ = worker::Phase::kStarting;
  double phase_begin_ = 0;
  uint64_t own_ticks_ = 0;

  v1::TrainerTask task_;
  double heard_ = 0;
  bool checking_lease_ = false, seeking_ = false;
  uint64_t sequence_ = 0;
  std::deque<v1::TrainerEvent> events_;      // without an acknowledgement
  std::deque<v1::TrainerEvent> remembered_;  // acknowledged, and yet to be repeated
  int64_t answered_ = 0;
  std::optional<v1::Ended> last_word_;

  bool started_ = false, running_ = false;
  bool asked_for_step_ = false;  // none is begun before the answer
  int64_t last_step_ = -1;
  int64_t writing_ = 0;  // a step
  double writing_since_ = 0;
  int64_t newest_saved_ = 0;
  v1::Finished::Outcome outcome_ = v1::Finished::OUTCOME_UNSPECIFIED;

  // Rank 0's: checkpoints on their way, committed one by one in order.
  std::set<int64_t> announced_;
  std::set<int64_t> complete_;      // of these: all ranks have written
  std::optional<int64_t> held_up_;  // to be written, once one of these is committed
  bool writing_manifest_ = false;
  std::optional<int64_t> asked_;  // without an answer
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_PROCESS_H_
