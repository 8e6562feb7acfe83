// A job's checkpoints on disk, and what becomes of them.
#ifndef STRATA_SIMULATION_STORAGE_H_
#define STRATA_SIMULATION_STORAGE_H_

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
  std::string Recover(const v1::PrepareEpoch& prepare);
  // Why ranks cannot begin with the checkpoint that they are told, at that time.
  std::optional<v1::CheckpointProblem> Check(const v1::PrepareEpoch& prepare, bool planning,
                                             double now) const;

  void Break(const std::string& digest, Damage damage) { damaged_[digest] = damage; }
  void FailUntil(double time) { fails_until_ = time; }

 private:
  std::map<int64_t, std::string> there_;  // step -> digest
  std::map<std::string, Damage> damaged_;
  double fails_until_ = 0;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_STORAGE_H_
