// What the ranks of an epoch do together: train at a steady pace, save, stop, break.
//
// Steps are not simulated one by one: an epoch advances at its job's rate from one checkpoint to
// the next.
#ifndef STRATA_CONTROLLER_SIMULATOR_TRAINING_H_
#define STRATA_CONTROLLER_SIMULATOR_TRAINING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "controller/simulator/tally.h"
#include "controller/simulator/workload.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::simulator {

struct World;

// A job as the world knows it.
struct JobRun {
  SimJob job;
  int index = 0;
  int64_t epoch = 0;           // the newest that any node was asked to prepare
  int64_t committed = 0;       // step; the controller said so
  int64_t broken_at_step = 0;  // how far it was when its ranks were broken last
  JobTally tally;
};

// One start of a job's ranks.
struct EpochRun {
  enum class Phase { kStarting, kTraining, kSaving, kFinishing, kBroken };
  v1::JobEpoch epoch;
  JobRun* job = nullptr;
  int64_t number = 0;  // of all that ever were, from 1
  int ranks = 0;       // of the whole job
  int64_t begin_step = 0;
  double seconds_per_step = 0;  // longer with fewer data ranks than asked for
  std::vector<int> nodes;       // with a part of it
  int loaded = 0;               // ranks that wait for the others, as their agents say
  int live = 0;                 // trainers
  Phase phase = Phase::kStarting;
  double since = 0;  // it trains since then, from step `from` on
  int64_t from = 0;
  int64_t saved = 0;    // all ranks have written it, and no answer has come yet
  int64_t written = 0;  // the newest that all ranks have written
  double written_at = 0;
  std::optional<int64_t> last_step;  // of an orderly stop
  bool leaving = false;              // nothing is left to be done
  std::vector<int> missing;          // ranks that its others wait for
  uint64_t plan = 0;                 // earlier plans are void
};

class Training {
 public:
  explicit Training(World& world) : world_(world) {}

  JobRun& AddJob(const SimJob& job);
  JobRun* FindJob(const std::string& name);  // jobs/NAME
  const std::vector<std::unique_ptr<JobRun>>& jobs() const { return jobs_; }

  // The epoch, known from its first part on until its last one has ended.
  EpochRun* Find(const v1::JobEpoch& epoch);
  EpochRun& Ensure(const v1::PrepareEpoch& prepare);
  void AddPart(EpochRun& run, int node, int ranks);
  void RemovePart(EpochRun& run, int node, int ranks);

  // These ranks have loaded; with all of them training begins.
  void Loaded(EpochRun& run, int ranks);
  // An orderly stop, told to all: the last step.
  void StopAfter(EpochRun& run, int64_t step);
  void OnAnswer(EpochRun& run, const v1::CommitAnswer& answer);
  // Its ranks cannot go on. `cause`: a failure's, or kPlanned.
  void Break(EpochRun& run, int cause);
  // The others' verdict on ranks that have vanished without a word.
  void Miss(EpochRun& run, const std::vector<int>& ranks);

  int64_t StepOf(const EpochRun& run) const;

 private:
  void Begin(EpochRun& run);
  void Plan(EpochRun& run);
  void Save(EpochRun& run, int64_t step);
  void Saved(EpochRun& run, int64_t step);
  void Leave(EpochRun& run);
  void ReportMissing(const v1::JobEpoch& epoch);

  World& world_;
  std::vector<std::unique_ptr<JobRun>> jobs_;
  std::unordered_map<std::string, JobRun*> by_name_;  // looked up only
  std::map<std::pair<std::string, int64_t>, EpochRun> runs_;
  int64_t last_number_ = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_TRAINING_H_
