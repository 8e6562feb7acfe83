// What things cost on a device that the catalog knows, whether it is at hand or not: the timeline
// by the same kernels and links as the closed form of planner/performance.
#ifndef STRATA_PLANNER_COST_CATALOG_COST_MODEL_H_
#define STRATA_PLANNER_COST_CATALOG_COST_MODEL_H_

#include "planner/performance/links.h"
#include "planner/performance/machine.h"
#include "program/ir/mesh.h"
#include "program/readers/timeline.h"

namespace strata::planner {

class CatalogCostModel final : public program::CostModel {
 public:
  // Ranks fill NVLink domains in order; the machine's rank map counts for nothing.
  explicit CatalogCostModel(const Machine& machine) : machine_(machine) {}

  // Products by tiles, attention by the rate that a whole sequence has, all else by bytes.
  double OpSeconds(const program::Op& op) const override;
  // Updates of what lives on the host: by bytes, of a device's share of the host's memory.
  double HostOpSeconds(const program::Op& op) const override;
  double CollectiveSeconds(const program::Communication& communication,
                           program::GroupSpan group) const override;
  double MessageSeconds(const program::Communication& communication,
                        program::GroupSpan group) const override;
  // By the host's link; with SSD at most at the rate of the device's share of the disks.
  double TransferSeconds(program::Tier from, program::Tier to, int64_t bytes) const override;
  // Collectives take processors and memory from the kernels beside them.
  program::Interference Beside(const program::Communication& communication) const override;

 private:
  GroupShape ShapeOf(program::GroupSpan group) const;

  const Machine machine_;
};

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_CATALOG_COST_MODEL_H_
