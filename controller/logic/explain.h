// A job's state in sentences and as data.
#ifndef STRATA_CONTROLLER_LOGIC_EXPLAIN_H_
#define STRATA_CONTROLLER_LOGIC_EXPLAIN_H_

#include "controller/logic/cluster_state.h"

namespace strata::controller {

// Where it runs or why it waits, what is known of its nodes, and what has happened to it.
v1::ExplainJobResponse Explain(ClusterState& state, const JobEntry& job);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_EXPLAIN_H_
