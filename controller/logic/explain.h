// A job's state in sentences and as data, for any thread.
#ifndef STRATA_CONTROLLER_LOGIC_EXPLAIN_H_
#define STRATA_CONTROLLER_LOGIC_EXPLAIN_H_

#include "controller/logic/snapshot.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// Where it runs or why it waits, what is known of its nodes, and what has happened to it. `job`: of
// the snapshot. What waits is told as the scheduler decided last, a second ago at most. Of a large
// job it takes its time: what a step sends is reckoned for several orders of its ranks.
v1::ExplainJobResponse Explain(const Snapshot& snapshot, const v1::JobRecord& job);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_EXPLAIN_H_
