#include "planner/cost/job_costs.h"

#include "absl/strings/str_cat.h"
#include "planner/cost/catalog_cost_model.h"

namespace strata::planner {

NamedCosts CatalogCostsOf(const Catalog& catalog, const v1::JobSpec& job, bool standin) {
  const bool narrow = job.train().precision() > v1::TrainSpec::PRECISION_F32;
  const auto found = catalog.Find({.gpu = job.resources().device(),
                                   .precision = narrow ? Precision::kHalf : Precision::kFp32,
                                   .framework = kOwnFramework});
  if (standin || !found.ok()) return {};
  return {std::make_unique<CatalogCostModel>(found->machine),
          absl::StrCat("the catalog's figures of ", found->machine.gpu.name)};
}

}  // namespace strata::planner
