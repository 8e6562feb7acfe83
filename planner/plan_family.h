// Which plans' predictions err alike, and how what was measured of them corrects the next ones.
//
// A family is a workload (the model's sizes, the sequence, the method, the precision, the kind of
// device) under a layout (degrees, sharding, schedule, recompute, where bytes live). Sizes of
// batches and counts of steps are not part of it: they scale what the timeline adds up, and hardly
// how far it is off.
#ifndef STRATA_PLANNER_PLAN_FAMILY_H_
#define STRATA_PLANNER_PLAN_FAMILY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

struct FamilyKey {
  std::string workload;  // "llama 6 x 384, heads 6/2 x 64, …, full f32, cpu"
  std::string layout;    // "tensor 2, data 4, zero1"
};

// `job`: complete. `model`: its sizes (job.model may only say where they are). `device`: the kind
// that its ranks run on.
FamilyKey FamilyOf(const v1::JobSpec& job, const v1::ModelSpec& model, const std::string& device);

using LearnedFamilies = google::protobuf::RepeatedPtrField<v1::PlanFamily>;

struct Correction {
  double ratio = 1;  // of measured to predicted seconds
  int64_t steps = 0;
  bool of_layout = false;  // this very one was measured; otherwise others of the workload were
};

// The family's own ratio. A layout that has never run gets the median of the workload's others:
// else whatever has not run yet would look faster than what has. Nothing: nothing like it has run.
std::optional<Correction> CorrectionOf(const FamilyKey& key, const LearnedFamilies& learned);

// "1.12 × the predicted time, as 240 steps of this layout took".
std::string ToText(const Correction& correction);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PLAN_FAMILY_H_
