// A node: its devices, the trainers on them, and the agent's process, each of which may fail alone.
#ifndef STRATA_TESTS_SIMULATION_SIM_NODE_H_
#define STRATA_TESTS_SIMULATION_SIM_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "controller/logic/core.h"
#include "controller/logic/job_entry.h"
#include "tests/simulation/link.h"

namespace strata::simulation {

using controller::EpochKey;

class Cluster;

// A process. It exists from its start until it is reaped or killed.
struct Trainer {
  int rank = 0;
  int device = 0;
  bool prepared = false;
  bool running = false;
  bool frozen = false;
  bool hung = false;
  // It said how it ended and waits for its agent to take note.
  std::optional<v1::EpochEnded> last_word;
};

// A node's ranks of one epoch: the processes, and what an agent keeps on disk for its successor.
struct Part {
  v1::PrepareEpoch prepare;
  std::map<int, Trainer> trainers;
  bool started = false;
  bool killing = false;
  bool stopping = false;  // orderly
  int64_t stop_after = -1;
  std::set<int64_t> written;                     // steps whose fragments may not be known yet
  std::optional<v1::CommittedCheckpoint> asked;  // a commit without an answer
  int64_t committed = 0;
  double moved_at = 0;
  // Once its ranks have done their last step.
  v1::Finished::Outcome outcome = v1::Finished::OUTCOME_UNSPECIFIED;

  EpochKey key() const { return controller::ToKey(prepare.epoch()); }
  bool Prepared() const;
  bool Running() const;
  bool HasRankZero() const { return prepare.own(0) == 0; }
};

class SimNode {
 public:
  SimNode(Cluster& cluster, int number, int devices);

  // Faults. Durations in seconds; everything comes back.
  void KillAgent(double back_after);
  void Reboot(double back_after);
  void Freeze(double seconds, bool trainers);
  void KillTrainer();
  void HangTrainer();
  void StopTrainer();  // SIGSTOP
  void BreakSession();
  void Partition(double seconds);

  void Boot();
  // The trainers' side. `step` is finished on all ranks and is to be saved.
  void OnWritten(const EpochKey& key, int64_t step);
  void OnFinalStep(const EpochKey& key, v1::Finished::Outcome outcome);
  // Another node's ranks are gone for no good reason.
  void OnPeerLost(const EpochKey& key);
  Part* Find(const EpochKey& key);
  std::string name() const;

 private:
  // Something the agent's present process does; later if it is frozen, never if it is dead.
  void Agent(std::function<void()> what);
  void AgentAfter(double delay, std::function<void()> what);
  bool AgentAwake() const { return alive_ && !frozen_; }
  void CheckLease(double absent_since);
  void EndOwnLease();

  void Beat();
  void Watch(Part& part);
  void Connect();
  void Say(v1::AgentMessage message);
  void OnMessage(const v1::ControllerMessage& message);
  void OnWelcome(const v1::Welcome& welcome);
  void OnPrepare(const v1::PrepareEpoch& prepare);
  void OnStart(const v1::StartEpoch& start);
  void OnStop(const v1::StopEpoch& stop);
  void OnStopAfter(const v1::StopEpochAfter& stop);
  void OnWriteManifest(const v1::WriteManifest& manifest);
  void OnCommitAnswer(const v1::CommitAnswer& answer);
  void Repeat(Part& part);
  void SayPrepared(const Part& part);
  void SayRunning(const Part& part);
  void SayWritten(const Part& part, int64_t step);
  void SayCommit(const Part& part);
  void SayEnded(const v1::EpochEnded& ended);
  v1::EpochEnded Ended(const EpochKey& key, v1::Finished::Outcome outcome, int rank,
                       bool echo) const;

  // Processes.
  void Spawn(Part& part);
  void Reap(Part& part, int rank);
  // A trainer is gone without a word; the agent sees it if it is there.
  void Die(const EpochKey& key, int rank);
  // Ends what is left of a part, then says `ended`.
  void EndPart(Part& part, v1::EpochEnded ended);
  // The ranks say how they ended, as far as they go.
  void Finish(const EpochKey& key);
  // The last trainer says how it ended; reaped when the agent takes note.
  void TakeNote(const EpochKey& key);
  void SurveyTrainers();
  Part* RandomPart();

  Cluster& cluster_;
  const int number_;
  const int devices_;

  std::map<EpochKey, Part> parts_;
  std::map<EpochKey, Part> parts_forgotten_;  // by a planted bug: they live on unseen

  bool alive_ = false;
  bool frozen_ = false;
  uint64_t incarnation_ = 0;
  uint64_t life_ = 0;
  double absent_since_ = 0;  // of the agent, from the trainers' view
  double partitioned_until_ = 0;
  std::deque<std::function<void()>> put_off_;
  std::shared_ptr<Link> link_;
  bool welcome_ = false;
  int64_t highest_term_ = 0;
  std::map<std::string, int64_t> highest_epoch_;
  std::deque<v1::EpochEnded> ended_lately_;
};

}  // namespace strata::simulation

#endif  // STRATA_TESTS_SIMULATION_SIM_NODE_H_
