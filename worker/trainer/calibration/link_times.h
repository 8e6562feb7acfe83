// How long communication takes, and what it costs compute beside it.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_LINK_TIMES_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_LINK_TIMES_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "device/thread_pool.h"
#include "program/ir/types.h"
#include "proto/strata/v1/profile.pb.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {

// What is measured between two members, by its name in programs and profiles.
struct MeasuredOperation {
  collectives::OpKind operation;
  program::CollectiveOp name;
};
inline constexpr MeasuredOperation kMeasuredOperations[] = {
    {collectives::OpKind::kAllGather, program::CollectiveOp::kAllGather},
    {collectives::OpKind::kReduceScatter, program::CollectiveOp::kReduceScatter},
    {collectives::OpKind::kAllReduce, program::CollectiveOp::kAllReduce},
    {collectives::OpKind::kBroadcast, program::CollectiveOp::kBroadcast},
    {collectives::OpKind::kAllToAll, program::CollectiveOp::kAllToAll},
    {collectives::OpKind::kRotate, program::CollectiveOp::kRotate},
};

// Runs an operation and returns when it has ended; with a communicator that an engine has taken,
// Engine::RunCollective.
using RunOperation = std::function<absl::Status(const collectives::Operation&)>;

// The same on the calling thread, by a communicator that no engine has.
absl::Status RunAlone(collectives::Communicator& communicator,
                      const collectives::Operation& operation);

// Seconds of one all-reduce of `count` floats in `group` of `size` ranks: the median of
// `repetitions`, which all ranks make.
absl::StatusOr<double> AllReduceSeconds(const RunOperation& run, collectives::GroupId group,
                                        int size, int64_t count, int repetitions);

// Adds the times of every operation between the two ranks of `group`, of which this is the one with
// `index`, at sizes up to `largest_bytes`. Both ranks call it with the same.
absl::Status MeasureLinks(const RunOperation& run, collectives::GroupId group, int index,
                          int64_t largest_bytes, int repetitions, v1::RankProfile& profile);

// Adds what collectives and steps of one rank, both going on all the time (for `seconds` each),
// cost each other: products that caches hold lose less beside messages than what goes through
// memory. Both ranks of `group` call it with the same; the communicator belongs to no engine.
absl::Status MeasureInterference(collectives::Communicator& communicator,
                                 collectives::GroupId group, const TrainingSpec& spec,
                                 double seconds, v1::RankProfile& profile);

// Adds the times of copies in memory.
void MeasureCopies(v1::RankProfile& profile);

// Bytes per second that the pool's threads together copy from memory to memory, far more than
// caches hold.
double HostCopyRate(device::ThreadPool& pool, bool quick);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_LINK_TIMES_H_
