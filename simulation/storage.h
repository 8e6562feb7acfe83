// A job's checkpoints on disk, and what becomes of them.
#ifndef STRATA_SIMULATION_STORAGE_H_
#define STRATA_SIMULATION_STORAGE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/strata/v1/agent.pb.h"

namespace strata::simulation {

enum class Damage {
  kSeenWhilePlanning,  // a file is missing or too short
  kSeenWhileLoading,   // its bytes differ
  kBadSector,          // the storage fails to read it, for ever
};

class Storage {
 public:
  // A recorded checkpoint gets its final name, and the oldest ones beyond `keep` go (0: none).
  // Returns these.
  std::vector<std::string> Publish(const v1::RecordedCheckpoint& checkpoint, int64_t keep);
  // All ranks have written it; whether it counts is not known yet.
  void Write(const v1::RecordedCheckpoint& checkpoint) { written_[checkpoint.step()] = checkpoint; }
  // Before an epoch's ranks start: what an earlier one left undone, and what is to be set aside.
  void Recover(const v1::Controlled& task);
  // What it may not begin beside; empty: nothing.
  std::string Beside(const v1::Controlled& task) const;
  // For a state that came from a backup: the newest that is whole, if it is newer than the one it
  // names. Damaged ones that are newer still are set aside.
  std::optional<v1::RecordedCheckpoint> FindNewer(const v1::Controlled& task);
  // The step of the newest one that can be read, at that time; 0: there is none.
  int64_t Newest(double now) const;
  // Why ranks cannot begin with the checkpoint that they are told, at that time.
  std::optional<v1::CheckpointProblem> Check(const v1::Controlled& task, bool planning,
                                             double now) const;

  void Break(const std::string& digest, Damage damage) { damaged_[digest] = damage; }
  void FailUntil(double time) { fails_until_ = time; }
  // Nothing is read or written before.
  void StallUntil(double time) { stalls_until_ = std::max(stalls_until_, time); }
  double StallAt(double now) const { return std::max(0.0, stalls_until_ - now); }  // seconds
  void FillUntil(double time) { full_until_ = time; }
  bool Full(double now) const { return now < full_until_; }

 private:
  std::map<int64_t, v1::RecordedCheckpoint> there_, written_;  // by step
  std::map<std::string, Damage> damaged_;
  double fails_until_ = 0, stalls_until_ = 0, full_until_ = 0;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_STORAGE_H_
