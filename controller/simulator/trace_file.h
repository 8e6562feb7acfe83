// A trace of jobs: CSV whose first line names the columns.
//
//   name,submit_seconds,nodes,tensor,pipeline,steps,seconds_per_step,priority
//   llama,0,128,8,4,20000,9.5,5
//
// Needed: name, submit_seconds, steps, seconds_per_step and one of nodes (whole ones), ranks and
// data. Others, with their defaults: tensor 1, context 1, pipeline 1 (data follows from them),
// shard_group (all of data), device (the cluster's first kind), priority 0, project and queue
// "default", spares 0, checkpoint_interval and checkpoint_stall in seconds (the command's),
// cancel_seconds after the submission (never). Numbers as in job files. Cells hold no commas and no
// quotes; spaces around them do not count; empty cells are as if their column were not there. Empty
// lines and lines that begin with # are left out.
#ifndef STRATA_CONTROLLER_SIMULATOR_TRACE_FILE_H_
#define STRATA_CONTROLLER_SIMULATOR_TRACE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/simulator/workload.h"

namespace strata::simulator {

struct TraceDefaults {
  int devices = 8;  // of a node
  std::string device = "h100";
  double checkpoint_interval = 300;
  double checkpoint_stall = 2;
};

// `file`: the name to be told. InvalidArgument: every problem at FILE:LINE:COLUMN.
absl::StatusOr<std::vector<SimJob>> ReadTrace(const std::string& file, const std::string& text,
                                              const TraceDefaults& defaults);

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_TRACE_FILE_H_
