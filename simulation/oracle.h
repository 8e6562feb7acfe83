// What must hold whatever happens. Told everything that becomes durable, is said or starts to run.
#ifndef STRATA_SIMULATION_ORACLE_H_
#define STRATA_SIMULATION_ORACLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/logic/core.h"
#include "controller/logic/job_entry.h"

namespace strata::simulation {

using Records = std::map<std::pair<std::string, std::string>, controller::Write>;

class Oracle {
 public:
  // The first thing that went wrong; empty: nothing has.
  const std::string& violation() const { return violation_; }
  void Violate(const std::string& what);

  // What the cluster is like: a node with its domain, which may be empty; a project's quota.
  void OnNode(const std::string& node, const std::string& domain) { domains_[node] = domain; }
  void OnQuota(const std::string& project, int64_t devices) { quotas_[project] = devices; }
  // Acknowledged to be drained; or about to be resumed.
  void OnDrained(const std::string& node, bool drained);

  // Changes that a transaction has made durable, and what was then released to watchers.
  void OnDurable(const std::vector<v1::JobRecord>& changed, double now = 0,
                 const std::vector<v1::JobRecord>& deleted = {});
  // The controller's store is copied; it is put back as it was then, as it is before the start.
  // Acknowledged changes that came after the copy are lost with the store, and nothing else: ranks
  // that train then go on, and the others begin with the newest checkpoint that is on disk.
  void OnBackup();
  void OnPutBack(const Records& store, double now);
  // A controller's term has become durable.
  void OnTerm(int64_t term);
  // A controller has loaded what the store holds.
  void OnLoaded(const controller::Core& core);
  void OnAcknowledged(const v1::JobRecord& job);
  // A checkpoint's manifest lies on disk, made of what all ranks of the epoch wrote.
  void OnManifest(int64_t epoch, int64_t step, const std::string& digest);
  void OnCommitAnswer(const v1::CommitAnswer& answer);
  // A checkpoint can no longer be read as it was written.
  // `bad_sector`: nobody can tell that from storage that is away for a while.
  void OnDamage(const std::string& digest, bool bad_sector) {
    damaged_.insert(digest);
    if (bad_sector) bad_sectors_.insert(digest);
  }
  // An agent continues a job's records for an epoch that begins after a step. Returns the last one
  // that is there and counts; the later ones are gone.
  int64_t ContinueRecords(const controller::EpochKey& key, int64_t start_step, bool* missing);
  // `file`: as RecordsFile told when they were continued; what goes to an earlier one is lost.
  void OnStepRecord(const controller::EpochKey& key, int64_t file, int64_t step);
  int64_t RecordsFile(const std::string& job) { return files_[job]; }
  // Something happens to "nodes/…" or "jobs/…" that may cost steps, and lasts until then.
  void OnHarm(const std::string& what, double until);
  // It gets its final name.
  void OnPublish(const std::string& job, const std::string& digest);
  // Retention has deleted it.
  void OnDeleted(const std::string& job, const std::string& digest);
  // The controller says something, at that time.
  void OnWords(double now);
  // Ranks of an epoch begin with what they were told.
  void OnBeginning(const controller::EpochKey& key, const v1::PrepareEpoch& prepare);
  // All of them are connected, at that step; the newest checkpoint on disk that can be read is of
  // step `newest` (0: there is none).
  void OnConnected(const controller::EpochKey& key, int64_t step, int64_t newest);
  // A trainer begins to use a device, or has let go of it.
  void OnTrainer(int node, int device, const std::string& job, int64_t epoch);
  void OnTrainerGone(int node, int device, const std::string& job, int64_t epoch);

  // A node of which the controller believes that ranks use devices; empty: there is none.
  static std::string HeldNode(const controller::Core& core);
  // Where nothing fails no job is stopped without its last checkpoint.
  void CheckStops();
  // Once all faults are over and everything has had its time.
  void AtEnd(const controller::Core& core, bool harmless);
  bool AllEnded() const;
  size_t trainers() const { return devices_.size(); }
  // How often: jobs were going on when the store was put back; they did so afterwards.
  int kept() const { return kept_count_; }
  const std::map<std::string, v1::JobRecord>& durable() const { return durable_; }

 private:
  void CheckChange(const v1::JobRecord& before, const v1::JobRecord& after);
  void CheckEpoch(const v1::JobRecord& before, const v1::JobRecord& after, bool starts);
  void CheckDeletion(const v1::JobRecord& gone);
  void BeginEpoch(const v1::JobRecord& after);
  bool GoesOn(const v1::JobRecord& job) const;
  void CheckStart(const v1::JobRecord& job);
  // Nobody else starts on devices that are kept for a job that moves.
  void CheckKept(const v1::JobRecord& job);
  void CheckQuota(const v1::JobRecord& before, const v1::JobRecord& after, bool found);
  // Devices of the project's jobs that have an epoch; `claimed`: or had one and are to go on.
  int64_t Used(const std::string& project, bool claimed) const;
  void ForgetExcess();
  void CheckPlaces(const v1::JobRecord& job);
  // Each step that is lost is explained by something that happened to the job or its nodes.
  void CheckLoss(const v1::JobRecord& job);
  // The step records up to a checkpoint are there when it counts.
  void CheckRecords(const std::string& job, int64_t step);
  void CheckCheckpoint(const v1::JobRecord& before, const v1::JobRecord& after);
  void CheckFallback(const v1::JobRecord& before, const v1::JobRecord& after);

  std::string violation_;
  std::map<std::string, std::string> domains_;  // by node
  std::map<std::string, int64_t> quotas_;       // by project
  std::set<std::string> excesses_;              // projects that have more, since a restore
  std::set<std::string> drained_;               // nodes
  std::map<std::string, int64_t> deletions_;    // job -> version of the last one
  int64_t last_version_ = 0;
  double now_ = 0;  // of the last changes
  // When a job that moves had let go of its old place.
  std::map<std::string, double> let_go_;
  std::map<std::string, v1::JobRecord> durable_;     // by name
  std::map<std::string, std::string> acknowledged_;  // name -> request_id
  std::map<std::pair<int, int>, std::pair<std::string, int64_t>> devices_;
  std::map<std::string, std::pair<int64_t, int64_t>> manifests_;  // digest -> epoch, step
  std::set<std::string> damaged_, bad_sectors_;                   // digests
  std::set<std::string> given_up_;                                // likewise, by their jobs
  // What was committed to a job, and neither given up nor deleted since.
  std::map<std::string, std::deque<v1::CommittedCheckpoint>> history_;
  // The checkpoint that an epoch was to begin with, as recorded when it began.
  std::map<controller::EpochKey, std::string> beginnings_;
  std::set<std::string> recorded_;                       // digests of checkpoints that ever counted
  std::map<std::string, double> harmed_;                 // "nodes/…" or "jobs/…": until when
  std::map<std::string, std::set<std::string>> places_;  // job -> nodes of its newest epoch
  std::map<std::string, double> started_;                // job -> when its epoch began
  std::map<std::string, std::map<int64_t, int64_t>> records_;  // job -> step -> epoch
  std::map<std::string, int64_t> files_;  // job -> how often they were put into a new file
  std::set<std::string> ever_;            // jobs, those that are deleted too
  std::set<std::string> deleted_;         // digests of checkpoints that retention has deleted
  // What is lost with a store that an earlier one replaces.
  std::map<std::string, std::string> acknowledged_then_;
  std::set<std::string> given_up_then_;
  // Digests of checkpoints that were given up or deleted before, which it may know as good ones.
  std::set<std::string> forgotten_;
  // Since the store was put back, until their ranks start anew: jobs whose ranks were all at work
  // then, and those of which that cannot be said.
  std::set<std::string> kept_, excused_, ever_excused_;
  int kept_count_ = 0;
  int64_t last_term_ = 0;
  int64_t second_ = 0;
  int words_ = 0;  // in that second
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_ORACLE_H_
