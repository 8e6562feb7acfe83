#include "scheduler/placement/random_cases.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/rng.h"

namespace strata::scheduler {
namespace {

using planner::EdgeTraffic;
using topology::Description;
using topology::Node;

topology::Cluster Made(Description description) {
  auto cluster = topology::Cluster::Make(std::move(description));
  STRATA_CHECK(cluster.ok());
  return *std::move(cluster);
}

Shape RandomTraffic(Draw& draw, Shape shape) {
  for (size_t i = 0; i < shape.traffic.size(); ++i) {
    EdgeTraffic& edge = shape.traffic[i];
    edge.next_bytes = 2 * draw.Between(1, 20);  // half of it is whole too
    edge.messages = draw.Below(3);
    edge.exposed = 0.25 * draw.Below(5);
    if (draw.Chance(30)) edge.previous_bytes = edge.next_bytes;
    if (draw.Chance(30)) edge.pattern = EdgeTraffic::Pattern::kLine;
    if (edge.pattern == EdgeTraffic::Pattern::kRing && draw.Chance(30)) edge.closing = 0.5;
  }
  if (draw.Chance(20)) {
    shape.traffic[2].pattern = EdgeTraffic::Pattern::kPairs;
    shape.traffic[2].previous_bytes = 0;
  }
  return shape;
}

// Devices that are free, each by itself or all alike.
std::vector<int> RandomFree(Draw& draw, int devices, int percent) {
  std::vector<int> free;
  for (int device = 0; device < devices; ++device) {
    if (draw.Chance(percent)) free.push_back(device);
  }
  return free;
}

void AddLinks(Draw& draw, Description& description) {
  double speed = 1e9;
  for (const std::string& level : description.levels) {
    description.links[level] = {.bytes_per_second = speed *= 4, .latency_seconds = 1e-6};
  }
  if (draw.Chance(50)) description.links["node"] = {.bytes_per_second = 1e12};
}

}  // namespace

int Draw::Below(int bound) {
  return static_cast<int>(common::MixBits(seed_, ++count_) % static_cast<uint64_t>(bound));
}

RandomCase SmallCase(uint64_t seed) {
  Draw draw(seed);
  Description description;
  const int levels = draw.Between(0, 3);
  const char* const names[] = {"zone", "rack", "tray"};
  for (int i = 0; i < levels; ++i) description.levels.push_back(names[i]);
  if (levels > 0 && draw.Chance(40)) description.domain_level = names[draw.Below(levels)];
  AddLinks(draw, description);
  const int nodes = draw.Between(1, 5);
  const int devices = draw.Between(1, 4);
  for (int i = 0; i < nodes; ++i) {
    Node node = {.name = absl::StrCat("n", draw.Below(100), "-", i), .kind = "h100"};
    node.devices = draw.Chance(80) ? devices : draw.Between(1, 4);
    node.free = RandomFree(draw, node.devices, 80);
    for (int level = 0; level < levels; ++level) {
      node.at.push_back(absl::StrCat(names[level], draw.Below(3)));
    }
    description.nodes.push_back(std::move(node));
  }
  Shape shape;
  shape.device = "h100";
  const int most = draw.Between(2, 8);
  for (int i = 0; i < 4; ++i) {
    const size_t dimension = draw.Chance(40) ? 0 : static_cast<size_t>(draw.Below(6));
    const int64_t degree = draw.Between(2, 4);
    if (shape.degrees[dimension] == 1 && shape.ranks() * degree <= most) {
      shape.degrees[dimension] = degree;
    }
  }
  return {Made(std::move(description)), RandomTraffic(draw, std::move(shape))};
}

namespace {

RandomCase Constrained(RandomCase random, uint64_t seed) {
  Draw draw(seed ^ 0x5ca1ab1e);
  const int64_t ranks = random.shape.ranks(), tensor = random.shape.degrees[0];
  std::vector<std::string> levels = random.cluster.levels();
  levels.push_back("node");
  int64_t run = ranks;
  for (int i = draw.Between(1, 2); i > 0 && run > 1; --i) {
    std::vector<int64_t> divisors;
    for (int64_t divisor = 2; divisor <= run; ++divisor) {
      const bool goes = divisor % tensor == 0 || tensor % divisor == 0;
      if (run % divisor == 0 && goes) divisors.push_back(divisor);
    }
    if (divisors.empty()) break;
    run = divisors[draw.Below(static_cast<int>(divisors.size()))];
    random.shape.topology.push_back(
        {run, levels[draw.Below(static_cast<int>(levels.size()))], draw.Chance(20)});
  }
  return random;
}

}  // namespace

RandomCase SmallConstrainedCase(uint64_t seed) { return Constrained(SmallCase(seed), seed); }
RandomCase LargeConstrainedCase(uint64_t seed) { return Constrained(LargeCase(seed), seed); }

RandomCase LargeCase(uint64_t seed) {
  Draw draw(seed);
  Description description;
  const bool racks = draw.Chance(70);
  description.levels = {"zone"};
  if (racks) description.levels.push_back("rack");
  const bool nvl72 = draw.Chance(25);
  const bool wide = nvl72 || draw.Chance(20);  // domains of several nodes
  if (!wide || !racks || draw.Chance(50)) description.levels.push_back("domain");
  AddLinks(draw, description);
  const int devices = nvl72 ? 4 : 1 << draw.Between(0, 3);
  const int percent_free = draw.Chance(30) ? 100 : draw.Between(40, 95);
  const int zones = draw.Between(1, 4);
  int made = 0;
  for (int zone = 0; zone < zones; ++zone) {
    const int domains = draw.Between(1, nvl72 ? 2 : 8);
    for (int domain = 0; domain < domains; ++domain) {
      const int trays = nvl72 ? draw.Between(12, 18) : wide ? draw.Between(1, 4) : 1;
      for (int tray = 0; tray < trays; ++tray) {
        const int number = (++made * 37) % 1009;  // unpadded, and not in the order of the tree
        Node node = {.name = absl::StrCat("host", number), .devices = devices};
        node.kind = draw.Chance(12) ? "a100" : draw.Chance(5) ? "cpu" : "h100";
        node.healthy = draw.Chance(95);
        node.free = draw.Chance(percent_free) ? RandomFree(draw, devices, 100)
                                              : RandomFree(draw, devices, draw.Below(100));
        node.at = {absl::StrCat("z", zone)};
        if (racks) node.at.push_back(absl::StrCat("r", domain / 2));
        if (description.levels.back() == "domain") node.at.push_back(absl::StrCat("d", domain));
        description.nodes.push_back(std::move(node));
      }
    }
  }
  Shape shape;
  shape.device = draw.Chance(30) ? "gpu" : "h100";
  shape.spares = draw.Below(4);
  int64_t free = 0;
  for (const Node& node : description.nodes) free += static_cast<int64_t>(node.free.size());
  const int most = static_cast<int>(free / draw.Between(1, 4) + 1);
  const int degrees[] = {2, 2, 3, 4, 4, 5, 6, 8, 16, 32};
  for (int i = 0; i < 6; ++i) {
    const size_t dimension = draw.Chance(25) ? 0 : static_cast<size_t>(draw.Below(6));
    const int64_t degree = degrees[draw.Below(10)];
    if (shape.degrees[dimension] == 1 && shape.ranks() * degree <= most) {
      shape.degrees[dimension] = degree;
    }
  }
  if (draw.Chance(15)) {  // what is left over goes to data: exactly full, or nearly
    shape.degrees[4] = std::max<int64_t>(1, free / (shape.ranks() / shape.degrees[4]));
  }
  return {Made(std::move(description)), RandomTraffic(draw, std::move(shape))};
}

}  // namespace strata::scheduler
