// What steps of a job cost on devices that were not measured, as far as the catalog knows them.
#ifndef STRATA_PLANNER_COST_JOB_COSTS_H_
#define STRATA_PLANNER_COST_JOB_COSTS_H_

#include <memory>
#include <string>

#include "planner/performance/catalog.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

struct NamedCosts {
  std::unique_ptr<program::CostModel> model;  // null: the catalog does not know the device
  std::string name;                           // "the catalog's figures of H200"
};

// By the job's kind of device and precision. `standin`: the job runs on the stand-in of CUDA, which
// no figures are of.
NamedCosts CatalogCostsOf(const Catalog& catalog, const v1::JobSpec& job, bool standin);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_JOB_COSTS_H_
