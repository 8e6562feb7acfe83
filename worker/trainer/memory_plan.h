// A job's `memory`: whether its programs keep to its limits, and where a rank's SSD tier is.
#ifndef STRATA_WORKER_TRAINER_MEMORY_PLAN_H_
#define STRATA_WORKER_TRAINER_MEMORY_PLAN_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/ssd/ssd_store.h"
#include "program/ir/program.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Whether the task says where bytes live: its ranks have device and host arenas of their own.
bool HasTiers(const v1::TrainerTask& task);

// ResourceExhausted, with the field and the least that would do, where a stage's arenas exceed the
// job's limits: of the device and the host per rank, of SSD for all ranks of a node, each of which
// has an equal part of every path. `stages`: one set of programs each.
absl::Status CheckLimits(const v1::TrainerTask& task,
                         const std::vector<const program::ProgramSet*>& stages);

// The rank's part of the task's paths, whose directories are made where they are missing. Requests
// are as the task's profile found them fastest; of disks that were not measured, as usual.
absl::StatusOr<memory::SsdOptions> OpenPaths(const v1::TrainerTask& task);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_MEMORY_PLAN_H_
