// strata place: where a job's ranks would go in a described cluster, without one that runs.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/map_file.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/views/placement_view.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"
#include "planner/data_degrees.h"
#include "planner/performance/catalog.h"
#include "planner/search/job_choice.h"
#include "planner/traffic.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/step_time.h"

namespace strata::client {
namespace {

absl::StatusOr<model::ModelSpec> ModelOf(const v1::JobSpec& job) {
  v1::ModelSpec sizes = job.model();
  sizes.clear_rope();  // traffic does not depend on it
  return model::FromProto(sizes);
}

// Smaller data degrees that the file may ask for instead: batches divide by them, and a
// virtual_shards that it names holds for them too. Descending.
std::vector<int64_t> OtherData(const v1::JobSpec& job, bool shards_named) {
  if (shards_named) return planner::FewerData(job.parallel(), job.parallel().data());
  const int64_t micro_batch = std::max<int64_t>(1, job.train().micro_batch());
  std::vector<int64_t> fewer;
  for (int64_t data = job.parallel().data() - 1; data >= 1; --data) {
    if (job.train().global_batch() % (data * micro_batch) == 0) fewer.push_back(data);
  }
  return fewer;
}

absl::StatusOr<scheduler::Shape> ShapeOf(const LoadedJob& loaded) {
  const v1::JobSpec& job = loaded.file.job;
  const auto refuse = [&](const std::string& field, const std::string& what,
                          const std::string& remedy) {
    spec::Problems problems(loaded.path);
    problems.Add({loaded.file.positions.Of(field), field, what, remedy});
    return problems.ToStatus();
  };
  if (job.parallel().automatic()) {
    return refuse("parallel", "auto: a placement needs degrees", "give them, such as {data: 8}");
  }
  scheduler::Shape shape;
  const auto degrees = planner::DegreesOf(job.parallel());
  if (!degrees.ok()) {
    return refuse("parallel.shard_group", std::string(degrees.status().message()), "");
  }
  const auto model = ModelOf(job);
  if (!model.ok()) return refuse("model", std::string(model.status().message()), "");
  shape.degrees = *degrees;
  shape.traffic = planner::TrafficOf(*model, job, *degrees);
  shape.device = job.resources().device();
  shape.spares = job.resources().spares();
  shape.fewer_data = planner::FewerData(job.parallel(), job.parallel().data());
  for (const v1::TopologyConstraint& constraint : job.resources().topology()) {
    shape.topology.push_back({constraint.ranks(), constraint.within(), constraint.preferred()});
  }
  shape.other_data = OtherData(job, loaded.file.positions.Has("parallel.virtual_shards"));
  return shape;
}

std::vector<scheduler::OrderTime> StepTimesOf(const topology::Cluster& cluster,
                                              const LoadedJob& loaded,
                                              const scheduler::Shape& shape,
                                              const scheduler::Placement& placement) {
  const v1::JobSpec& job = loaded.file.job;
  const auto model = ModelOf(job);
  if (!model.ok()) return {};
  const auto choice =
      planner::ChoiceOf(planner::Catalog::Shipped(), {.spec = *model}, job, placement.kind);
  if (!choice.has_value()) return {};
  return scheduler::StepTimes(*choice, cluster, shape, placement);
}

// The nodes of a placement in the order of their first ranks, as a host file lists them.
void TellNames(const topology::Cluster& cluster, const PlacementAnswer& answer,
               Terminal& terminal) {
  if (!answer.placement) {
    terminal.Error(answer.refusal.reason);
    return;
  }
  std::set<int> told;
  for (const scheduler::Device& device : answer.placement->ranks) {
    if (told.insert(device.node).second) terminal.Out(cluster.nodes()[device.node].name + "\n");
  }
}

int Place(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<topology::Cluster> cluster =
      ReadMapFile(arguments.Text("--topology"), arguments);
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  const absl::StatusOr<LoadedJob> loaded = ReadJobAlone(arguments.Text("--job"), options);
  const int cluster_code = cluster.ok() ? kExitDone : Fail(cluster.status(), terminal);
  const int job_code = loaded.ok() ? kExitDone : Fail(loaded.status(), terminal);
  if (cluster_code != kExitDone) return cluster_code;
  if (job_code != kExitDone) return job_code;
  const absl::StatusOr<scheduler::Shape> shape = ShapeOf(*loaded);
  if (!shape.ok()) return Fail(shape.status(), terminal);

  PlacementAnswer answer;
  const v1::ParallelSpec& parallel = loaded->file.job.parallel();
  answer.shard_groups = parallel.has_shard_group() && parallel.shard_group() != parallel.data();
  const common::MonotonicClock clock{};
  const double begin = clock.Now();
  const scheduler::Occupancy occupancy = scheduler::Occupancy::Now(*cluster);
  answer.placement = scheduler::Place(*cluster, occupancy, *shape);
  answer.seconds = clock.Now() - begin;
  if (answer.placement) {
    answer.compared = scheduler::CompareOrders(*cluster, *shape, *answer.placement);
    answer.step_times = StepTimesOf(*cluster, *loaded, *shape, *answer.placement);
  } else {
    answer.refusal = scheduler::WhyNot(*cluster, occupancy, *shape);
  }
  const std::string output = arguments.Text("--output", "table");
  if (output == "name") {
    TellNames(*cluster, answer, terminal);
  } else {
    terminal.Out(output == "table" ? PlacementText(*cluster, *shape, answer)
                                   : ToText(ToJson(*cluster, *shape, answer), output));
  }
  return !answer.placement && answer.refusal.infeasible ? kExitInfeasible : kExitDone;
}

}  // namespace

Command PlaceCommand() {
  constexpr auto kText = Flag::Kind::kText;
  Command command;
  command.name = "place";
  command.usage = "--topology FILE --job JOB.yaml [--set PATH=VALUE]";
  command.summary = "Where a job's ranks would go, and why, without a running cluster";
  Flag topology = {"--topology", kText, "FILE", "the cluster, as strata topology --from reads it"};
  topology.required = true;
  Flag job = {"--job", kText, "JOB.yaml", "the job; its data and weights need not be there"};
  job.required = true;
  Flag set = {"--set", kText, "PATH=VALUE", "change a key of the job file; may be repeated"};
  set.repeated = true;
  command.flags = {topology, job, set};
  const std::vector<Flag> map = MapFileFlags();
  command.flags.insert(command.flags.end(), map.begin(), map.end());
  command.outputs = {"table", "json", "yaml", "name"};
  command.run = Place;
  return command;
}

}  // namespace strata::client
