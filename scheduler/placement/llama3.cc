#include "scheduler/placement/llama3.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "planner/traffic.h"

namespace strata::scheduler {

topology::Cluster PodsOf(int zones, int racks, const std::string& kind) {
  constexpr int kDevices = 8;
  topology::Description description;
  description.levels = {"zone", "rack", "domain"};
  description.links["root"] = {50e9 / 7, 2e-5, 7};
  description.links["zone"] = {50e9, 1e-5, 1};
  description.links["rack"] = {50e9, 5e-6, 1};
  description.links["domain"] = {450e9, 1e-6, 1};
  int made = 0;
  for (int zone = 0; zone < zones; ++zone) {
    for (int i = 0; i < 2 * racks; ++i) {
      topology::Node node = {.kind = kind, .devices = kDevices};
      // A step that is prime to the number of nodes (a power of two times 3 or 5) mixes the names.
      node.name = absl::StrCat("gpu-", int64_t{7919} * made++ % (int64_t{2} * zones * racks));
      for (int device = 0; device < kDevices; ++device) node.free.push_back(device);
      node.at = {absl::StrCat("z", zone), absl::StrCat("r", i / 2), absl::StrCat("d", i)};
      description.nodes.push_back(std::move(node));
    }
  }
  auto cluster = topology::Cluster::Make(std::move(description));
  STRATA_CHECK(cluster.ok());
  return *std::move(cluster);
}

Shape Llama3Shape() {
  const model::ModelSpec model = {.layers = 126,
                                  .hidden = 16384,
                                  .heads = 128,
                                  .kv_heads = 8,
                                  .head_size = 128,
                                  .ffn = 53248,
                                  .vocab = 128256,
                                  .context = 8192};
  v1::JobSpec job;
  job.mutable_train()->set_sequence(8192);
  job.mutable_train()->set_global_batch(16 * 128);
  job.mutable_train()->set_micro_batch(1);
  job.mutable_train()->set_precision(v1::TrainSpec::PRECISION_BF16);
  job.mutable_parallel()->set_tensor(8);
  job.mutable_parallel()->set_pipeline(16);
  job.mutable_parallel()->set_data(128);
  job.mutable_parallel()->set_shard(v1::ParallelSpec::SHARD_ZERO2);
  Shape shape;
  shape.degrees = *planner::DegreesOf(job.parallel());
  shape.traffic = planner::TrafficOf(model, job, shape.degrees);
  shape.device = "h100";
  return shape;
}

}  // namespace strata::scheduler
