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
  std::vector<std::string> Publish(int64_t step, const std::string& digest, int64_t keep);
  // Before an epoch's ranks start: what an earlier one left undone, and what is to be set aside.
  // Returns what it may not begin beside; empty: nothing.
  std::string Recover(const v1::Controlled& task);
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
  std::map<int64_t, std::string> there_;  // step -> digest
  std::map<std::string, Damage> damaged_;
  double fails_until_ = 0, stalls_until_ = 0, full_until_ = 0;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_STORAGE_H_
