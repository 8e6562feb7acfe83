#include "controller/simulator/simulator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/random.h"
#include "controller/simulator/streams.h"
#include "controller/simulator/world.h"

namespace strata::simulator {

topology::Description RegularCluster(const Regular& shape) {
  topology::Description map;
  map.levels = {"zone", "rack", "domain"};
  map.domain_level = "domain";
  map.pipeline_level = "zone";
  map.links = {{"root", {7e9, 2e-5, 7}}, {"zone", {50e9, 5e-6, 1}}, {"domain", {450e9, 1e-6, 1}}};
  const int per_rack = std::max(shape.nodes_per_rack, shape.nodes_per_domain);
  for (int i = 0; i < shape.nodes; ++i) {
    topology::Node& node = map.nodes.emplace_back();
    node.name = absl::StrFormat("n%05d", i);
    node.kind = shape.device;
    node.devices = shape.devices;
    for (int device = 0; device < shape.devices; ++device) node.free.push_back(device);
    node.at = {absl::StrCat("z", i / shape.nodes_per_zone), absl::StrCat("r", i / per_rack),
               absl::StrCat("d", i / shape.nodes_per_domain)};
  }
  return map;
}

Report Simulate(const Options& options, const std::function<void(double)>& on_progress) {
  World world(options);
  world.Run(on_progress);
  return world.statistics.Finish();
}

Options TroubledCluster(uint64_t seed) {
  common::Random random(seed, kWorkload);
  Options options;
  options.seed = seed;
  options.days = 2;
  Regular shape;
  shape.nodes = static_cast<int>(32 + random.Below(17));
  shape.devices = 2;
  shape.nodes_per_zone = 16;
  shape.nodes_per_domain = 4;
  options.cluster = RegularCluster(shape);
  Mix mix;
  mix.nodes = shape.nodes;
  mix.devices = shape.devices;
  mix.most_tensor = shape.devices * shape.nodes_per_domain;
  mix.days = options.days;
  mix.load = random.Between(0.4, 1.1);
  mix.sizes = {1, 2, 4, 12, 16, 24};
  mix.searched = seed % 200 == 0;
  mix.meshes = true;
  mix.mean_hours = 20;
  mix.checkpoint_interval = 7200;
  mix.checkpoint_stall = 10;
  mix.cancel_probability = 0.1;
  options.jobs = RandomJobs(mix, random);
  options.failure_rate = 100;
  options.all_fragments = seed % 4 == 0;
  options.controller_ends_per_day = 2;
  options.waiting_tick_seconds = 600;
  return options;
}

}  // namespace strata::simulator
