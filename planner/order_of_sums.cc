#include "planner/order_of_sums.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "model/model_spec_proto.h"
#include "model/parameter_count.h"

namespace strata::planner {
namespace {

constexpr double kGradientBytes = 4;  // f32

// Sums of a rank's leaves that exist at once, combined as soon as two neighbours do.
int64_t SumsAtOnce(int64_t leaves) {
  int64_t sums = 1;
  for (int64_t combined = 1; combined < leaves; combined *= 2) ++sums;
  return sums;
}

std::string CostOfTree(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  const bool by_leaf = parallel.shard() == v1::ParallelSpec::SHARD_ZERO2 ||
                       parallel.shard() == v1::ParallelSpec::SHARD_ZERO3;
  const int64_t sums = SumsAtOnce(parallel.virtual_shards() / parallel.data());
  if (!by_leaf || sums < 2 || !job.model().has_layers()) return "";
  const absl::StatusOr<model::ModelSpec> spec = model::FromProto(job.model());
  if (!spec.ok()) return "";  // whoever starts the job says why
  const int64_t parts = parallel.shard_group() > 0 ? parallel.shard_group() : parallel.data();
  const double one = model::ParameterCount(*spec) * kGradientBytes / static_cast<double>(parts);
  return absl::StrCat("sums of gradients are taken in a tree of ", parallel.virtual_shards(),
                      " leaves (virtual_shards), of which each rank keeps up to ", sums, ": ",
                      common::FormatBytes(one * static_cast<double>(sums)), " instead of the ",
                      common::FormatBytes(one), " of virtual_shards: off");
}

}  // namespace

std::string OrderOfSums(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  if (parallel.automatic() || !parallel.has_virtual_shards() || parallel.data() <= 1) return "";
  if (parallel.virtual_shards() > 0) return CostOfTree(job);
  return "sums of gradients have an order of this layout's own (virtual_shards is off): it repeats "
         "its bits, other layouts round differently";
}

}  // namespace strata::planner
