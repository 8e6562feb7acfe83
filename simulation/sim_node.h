// A node: its devices, the trainers on them, and the agent's process, each of which may fail alone.
#ifndef STRATA_SIMULATION_SIM_NODE_H_
#define STRATA_SIMULATION_SIM_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/logic/core.h"
#include "controller/logic/job_entry.h"
#include "simulation/link.h"

namespace strata::simulation {

using controller::EpochKey;

class Cluster;

// A process. It exists from its start until it is reaped or killed.
struct Trainer {
  int rank = 0;
  int device = 0;
  bool prepared = false;
  bool running = false;
  bool frozen = false;   // with its node
  bool stopped = false;  // SIGSTOP
  bool hung = false;
  // It said how it ended and waits for its agent to take note.
  std::optional<v1::EpochEnded> last_word;

  bool Still() const { return frozen || stopped; }
};

// A node's ranks of one epoch: the processes with what they know, and what an agent keeps on disk
// for its successor.
struct Part {
  static constexpr size_t kFragmentsKept = 4;  // by ranks, for their agent
  static constexpr size_t kMostUncommitted = 2;

  v1::PrepareEpoch prepare;
  bool planning = true;  // by a process that ends with its agent; no trainers yet
  std::map<int, Trainer> trainers;
  bool started = false;
  bool killing = false;
  std::set<int64_t> written;  // steps, the newest few

  // The agent's alone.
  bool stopping = false;  // orderly
  int64_t stop_after = -1;
  double missed_at = 0;

  // The ranks' gate: none begins a step after the last one.
  bool asked_for_step = false;
  int64_t last_step = -1;

  // Rank 0's: checkpoints on their way, committed one by one in order.
  std::set<int64_t> announced;     // at most kMostUncommitted
  std::set<int64_t> complete;      // of these: all ranks have written
  std::optional<int64_t> held_up;  // to be written, once one of these is committed
  bool writing_manifest = false;
  std::optional<v1::CommittedCheckpoint> asked;  // without an answer
  std::optional<v1::CommitAnswer> answer;        // not read yet
  int64_t newest_saved = 0;
  // Once its ranks have done their last step.
  v1::Finished::Outcome outcome = v1::Finished::OUTCOME_UNSPECIFIED;

  EpochKey key() const { return controller::ToKey(prepare.epoch()); }
  bool Prepared() const;
  bool Running() const;
  bool HasRankZero() const { return prepare.own(0) == 0; }
};

// What an agent still knows of ranks that are gone.
struct Past {
  std::set<int64_t> written;
  std::vector<int> ranks;
  v1::EpochEnded ended;
};

class SimNode {
 public:
  // `domain`: of its locality; empty: it names none.
  SimNode(Cluster& cluster, int number, int devices, const std::string& domain);

  // Faults. Durations in seconds; everything comes back.
  void KillAgent(double back_after);
  void Reboot(double back_after);
  void Freeze(double seconds, bool trainers);
  void KillTrainer();
  void HangTrainer();
  void StopTrainer();  // SIGSTOP
  void BreakSession();
  void Partition(double seconds, bool up, bool down);

  void Boot();
  // The ranks' side. `step` is finished on all ranks and is to be saved.
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
  void Wake(uint64_t life, double slept);

  // The agent (sim_agent.cc).
  void Beat();
  void Watch(Part& part);
  void Connect();
  void Register();
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
  void SayProblem(const EpochKey& key, const std::string& problem);
  void SayPrepared(const Part& part);
  void SayRunning(const Part& part);
  void SayStopping(const EpochKey& key);
  void SayWritten(const EpochKey& key, const std::vector<int>& ranks, int64_t step);
  void SayCommit(const Part& part);
  void SayEnded(const v1::EpochEnded& ended);
  void Remember(const Part& part, const v1::EpochEnded& ended);
  const Past* FindPast(const EpochKey& key) const;
  void SayGone(const EpochKey& key);

  void FinishPlan(Part& part);

  // The ranks (sim_ranks.cc).
  void Spawn(Part& part);
  void GetReady(const EpochKey& key, int rank);
  void Load(const EpochKey& key);
  // Whether the checkpoint that it begins with can be read; the first of its ranks says if not.
  bool LoadCheckpoint(Part& part);
  void Reap(Part& part, int rank);
  // A trainer is gone without a word; the agent sees it if it is there.
  void Die(const EpochKey& key, int rank);
  // Ends what is left of a part, then says `ended`.
  void EndPart(Part& part, v1::EpochEnded ended);
  // Rank 0 makes the next manifest if it can, and reads the answer to the last.
  void AdvanceCommits(const EpochKey& key);
  void WriteManifest(const EpochKey& key, int64_t step);
  void ReadAnswer(Part& part);
  // Orders that reached the ranks while these stood still.
  void ObeyLastStep(const EpochKey& key);
  void FinishIfDone(const EpochKey& key);
  // The ranks say how they ended.
  void Finish(const EpochKey& key);
  // The last trainer says how it ended; reaped when the agent takes note.
  void TakeNote(const EpochKey& key);
  void SurveyTrainers();
  Part* RandomPart();
  v1::EpochEnded Ended(const EpochKey& key, v1::Finished::Outcome outcome, int rank, bool echo,
                       const std::string& cause = "") const;

  Cluster& cluster_;
  const int number_;
  const int devices_;
  const std::string domain_;

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
  std::optional<double> welcomed_at_;  // in this session
  int64_t highest_term_ = 0;
  std::map<std::string, int64_t> highest_epoch_;
  std::deque<Past> past_;  // the newest
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_NODE_H_
