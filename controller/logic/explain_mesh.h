// The mesh of a job's ranks as data.
#ifndef STRATA_CONTROLLER_LOGIC_EXPLAIN_MESH_H_
#define STRATA_CONTROLLER_LOGIC_EXPLAIN_MESH_H_

#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// Adds `mesh` and `ranks` of a job whose ranks have places.
void ExplainMesh(const v1::JobRecord& job, v1::ExplainJobResponse& response);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_EXPLAIN_MESH_H_
