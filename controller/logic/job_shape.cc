#include "controller/logic/job_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/refusal.h"
#include "model/model_spec_proto.h"
#include "planner/data_degrees.h"
#include "planner/traffic.h"

namespace strata::controller {
namespace {

// Ranks of one data coordinate.
int64_t CellRanks(const v1::JobSpec& spec) {
  v1::JobSpec one = spec;
  one.mutable_resources()->clear_ranks();
  one.mutable_parallel()->set_data(1);
  return RanksOf(one);
}

// With this data degree written out.
v1::ParallelSpec Layout(const v1::JobSpec& spec, int64_t data) {
  return planner::WithData(spec.parallel(), DataDegree(spec), data);
}

}  // namespace

int64_t DataDegree(const v1::JobSpec& spec) {
  return std::max<int64_t>(1, RanksOf(spec) / CellRanks(spec));
}

absl::Status CheckLayout(const v1::JobSpec& spec) {
  const int64_t ranks = RanksOf(spec), cell = CellRanks(spec);
  const bool whole = ranks % cell == 0;
  const bool said = spec.parallel().data() > 1 && spec.parallel().data() * cell != ranks;
  if (!whole || said) {
    return InvalidField("resources.ranks",
                        absl::StrCat(ranks, " is not the product of parallel's degrees"));
  }
  if (!spec.parallel().has_virtual_shards()) {
    return InvalidField("parallel.virtual_shards", "is missing (a job's defaults come before it)");
  }
  const auto degrees = planner::DegreesOf(Layout(spec, DataDegree(spec)));
  if (degrees.ok()) return absl::OkStatus();
  return InvalidField("parallel", std::string(degrees.status().message()));
}

scheduler::Shape ShapeOf(const v1::JobRecord& job, int64_t data) {
  const v1::JobSpec& spec = job.spec();
  if (data == 0) data = DataDegree(spec);
  scheduler::Shape shape;
  const auto degrees = planner::DegreesOf(Layout(spec, data));
  if (degrees.ok()) shape.degrees = *degrees;
  const auto model = model::FromProto(job.has_model() ? job.model() : spec.model());
  if (model.ok()) shape.traffic = planner::TrafficOf(*model, spec, shape.degrees);
  if (!spec.resources().device().empty()) shape.device = spec.resources().device();
  shape.spares = spec.resources().spares();
  shape.fewer_data = planner::FewerData(spec.parallel(), data);
  for (const v1::TopologyConstraint& constraint : spec.resources().topology()) {
    shape.topology.push_back({constraint.ranks(), constraint.within(), constraint.preferred()});
  }
  return shape;
}

v1::JobSpec SpecWithData(const v1::JobSpec& spec, int64_t data) {
  v1::JobSpec changed = spec;
  if (data == 0 || data == DataDegree(spec)) return changed;
  *changed.mutable_parallel() = Layout(spec, data);
  changed.mutable_resources()->set_ranks(CellRanks(spec) * data);
  return changed;
}

std::vector<planner::Dimension> OrderOf(
    const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<planner::Dimension> order;
  for (const std::string& name : names) {
    for (const planner::Dimension dimension : planner::kAllDimensions) {
      if (planner::NameOf(dimension) == name) order.push_back(dimension);
    }
  }
  if (order.size() != planner::kDimensions) {
    order.assign(planner::kAllDimensions.begin(), planner::kAllDimensions.end());
  }
  return order;
}

}  // namespace strata::controller
