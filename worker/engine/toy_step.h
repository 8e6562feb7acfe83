// A small data-parallel training step for tests: a table of rows, pulled towards zero where the
// batch touches it. All mechanisms of a real step, a few kernels.
#ifndef STRATA_WORKER_ENGINE_TOY_STEP_H_
#define STRATA_WORKER_ENGINE_TOY_STEP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "device/thread_pool.h"
#include "program/ir/program.h"
#include "worker/engine/engine.h"
#include "worker/engine/host_ops.h"

namespace strata::worker {

inline constexpr int64_t kToyVocab = 24, kToyChannels = 32, kToySequence = 3;
inline constexpr int kToyShards = 4;                                // virtual
inline constexpr int64_t kToyTable = kToyVocab * kToyChannels * 4;  // bytes

struct ToyStep {
  program::ProgramSet set;  // laid out; program 0 trains, program 1 evaluates
  int table = -1;           // the parameters' slot
};

// For one rank of `ranks`, which share 4 virtual shards of two samples each. Sharded: the update
// is of the rank's range, and the table is gathered afterwards.
ToyStep MakeToyStep(int ranks, bool sharded);

class ToyHost final : public HostOps {
 public:
  ToyHost(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  absl::Status LoadBatch(const BatchRows& rows) override;
  absl::Status LoadScalars(double* scalars) override;
  absl::Status Signal(program::Purpose purpose, const std::string& label) override;

  int64_t step = 1, applied = 0;
  int signals = 0;
  absl::Status load_status;  // what LoadBatch returns

 private:
  int rank_, ranks_;
};

// One rank with all it needs.
struct ToyRank {
  std::unique_ptr<collectives::Communicator> communicator;  // null alone
  std::unique_ptr<ToyHost> host;
  std::unique_ptr<device::ThreadPool> pool;
  std::unique_ptr<Engine> engine;
  int table = -1;

  // A training step; counts steps and updates.
  absl::Status Train();
};

// Options for rank `rank` of `ranks`, all of them one data group. `communicator` may be null alone.
EngineOptions ToyOptions(int ranks, ToyRank& rank);

// A rank with its engine and the table's initial values. To be called on the rank's own thread.
absl::StatusOr<ToyRank> OpenToyRank(int rank, int ranks, bool sharded,
                                    std::unique_ptr<collectives::Communicator> communicator);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_TOY_STEP_H_
