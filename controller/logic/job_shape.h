// What a job's record says to the scheduler: its shape, and where its ranks are.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_SHAPE_H_
#define STRATA_CONTROLLER_LOGIC_JOB_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/records.pb.h"
#include "scheduler/placement/placement.h"

namespace strata::controller {

// InvalidArgument, with the field: the degrees of `parallel` do not make up resources.ranks.
absl::Status CheckLayout(const v1::JobSpec& spec);

// Of a job whose layout is sound. Without degrees the ranks are one data group. Bytes are those of
// the model's sizes (Job.model, else spec.model); none where these are not known. `data`: in place
// of the data degree asked for; 0: that one.
scheduler::Shape ShapeOf(const v1::JobRecord& job, int64_t data = 0);

// The data degree asked for (data · replicate).
int64_t DataDegree(const v1::JobSpec& spec);

// As the trainers of an epoch get it: with that data degree (0: the one asked for), and
// virtual_shards as they were, so that the numbers stay the same.
v1::JobSpec SpecWithData(const v1::JobSpec& spec, int64_t data);

// RankLayout.order as dimensions; the canonical order where it does not name all of them.
std::vector<planner::Dimension> OrderOf(
    const google::protobuf::RepeatedPtrField<std::string>& names);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_SHAPE_H_
