#include "client/views/placement_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"
#include "client/views/mesh_view.h"
#include "common/units.h"
#include "planner/dimension_names.h"

namespace strata::client {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using scheduler::Cost;
using scheduler::Placement;
using scheduler::Shape;
using topology::Cluster;

size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }
int64_t Degree(const Shape& shape, Dimension dimension) { return shape.degrees[Index(dimension)]; }
// Depths that bytes are accounted at, innermost first.
std::vector<int> AccountedDepths(const Cluster& cluster) {
  std::vector<int> depths;
  for (int depth = cluster.node_depth(); depth >= 0; --depth) {
    if (cluster.AccountedDepth(depth) == depth) depths.push_back(depth);
  }
  return depths;
}

Json BytesByLevel(const Cluster& cluster, const Cost& cost) {
  Json bytes = Json::object();
  for (const int depth : AccountedDepths(cluster)) {
    bytes[cluster.DepthName(depth)] = cost.bytes[depth];
  }
  return bytes;
}

const char* PatternName(EdgeTraffic::Pattern pattern) {
  switch (pattern) {
    case EdgeTraffic::Pattern::kLine:
      return "line";
    case EdgeTraffic::Pattern::kRing:
      return "ring";
    case EdgeTraffic::Pattern::kPairs:
      return "pairs";
  }
  return "";
}

const char* ModelOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTensor:
      return "all-reduces of every layer's activations, two forward and two backward";
    case Dimension::kContext:
      return "keys and values around the ring forward and backward, their gradients backward, and "
             "an all-reduce of weight gradients";
    case Dimension::kExpert:
      return "tokens from everybody to everybody";
    case Dimension::kPipeline:
      return "activations to the next stage and their gradients back, per micro-batch";
    case Dimension::kData:
      return "gradients reduced and weights gathered over a ring, once per step";
    case Dimension::kReplicate:
      return "all-reduce of gradient shards between shard groups, once per step";
  }
  return "";
}

Json TrafficJson(const Shape& shape) {
  Json traffic = Json::object();
  for (const Dimension dimension : planner::kAllDimensions) {
    if (!planner::IsTold(shape.degrees, dimension)) continue;
    const EdgeTraffic& edge = shape.traffic[Index(dimension)];
    Json& told = traffic[planner::NameIn(shape.degrees, dimension)] = Json::object();
    told["bytes_per_edge"] = edge.next_bytes;
    told["bytes_per_edge_back"] = edge.previous_bytes;
    told["pattern"] = PatternName(edge.pattern);
    if (edge.pattern != EdgeTraffic::Pattern::kPairs) {
      told[PatternName(edge.pattern)] = "coordinate order";
    }
    if (edge.pattern == EdgeTraffic::Pattern::kRing && edge.closing != 1) {
      told["closing_edge_share"] = edge.closing;
    }
    told["messages_per_edge"] = edge.messages;
    told["exposed_share"] = edge.exposed;
    told["model"] = ModelOf(dimension);
  }
  return traffic;
}

Json OrderJson(const Shape& shape, const Placement& placement) {
  Json order = Json::array();
  for (const Dimension dimension : placement.order) {
    if (planner::IsTold(shape.degrees, dimension))
      order.push_back(planner::NameIn(shape.degrees, dimension));
  }
  return order;
}

MeshView MeshOf(const Cluster& cluster, const Shape& shape, const Placement& placement) {
  MeshView mesh;
  for (const Dimension dimension : placement.order) {
    if (!planner::IsTold(shape.degrees, dimension)) continue;
    mesh.dimensions.push_back(
        {planner::NameIn(shape.degrees, dimension), Degree(shape, dimension)});
  }
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const scheduler::Device& at = placement.ranks[rank];
    const planner::Degrees coordinates =
        scheduler::CoordinatesOf(static_cast<int64_t>(rank), shape.degrees, placement.order);
    MeshView::Rank& told = mesh.ranks.emplace_back();
    told.rank = static_cast<int64_t>(rank);
    told.node = cluster.nodes()[at.node].name;
    told.device = at.device;
    for (const Dimension dimension : placement.order) {
      if (!planner::IsTold(shape.degrees, dimension)) continue;
      told.coordinates.push_back(coordinates[Index(dimension)]);
    }
  }
  return mesh;
}

Json RefusalJson(const scheduler::Refusal& refusal, bool shard_groups) {
  Json told = {{"decision", refusal.infeasible ? "infeasible" : "waiting"},
               {"reason", refusal.reason}};
  if (!refusal.infeasible) told["starts_when"] = refusal.starts_when;
  if (!refusal.nearest) return told;
  const planner::Degrees& degrees = refusal.nearest->degrees;
  Json parallel = Json::object();
  for (const Dimension dimension :
       {Dimension::kTensor, Dimension::kContext, Dimension::kPipeline}) {
    parallel[planner::NameOf(dimension)] = degrees[Index(dimension)];
  }
  const int64_t replicate = degrees[Index(Dimension::kReplicate)];
  parallel["data"] = degrees[Index(Dimension::kData)] * replicate;
  if (shard_groups || replicate > 1) parallel["shard_group"] = degrees[Index(Dimension::kData)];
  told["nearest"] = {
      {"parallel", parallel}, {"ranks", refusal.nearest->ranks}, {"text", refusal.nearest->text}};
  if (!refusal.nearest->device.empty()) told["nearest"]["device"] = refusal.nearest->device;
  return told;
}

// "0-127, 256-383"; the first few of many.
std::string RangesOf(std::vector<int64_t> numbers) {
  constexpr size_t kMostRanges = 4;
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (ranges.size() == kMostRanges) {
      ranges.push_back("…");
      break;
    }
    ranges.push_back(end == i + 1 ? absl::StrCat(numbers[i])
                                  : absl::StrCat(numbers[i], "-", numbers[end - 1]));
    i = end;
  }
  return absl::StrJoin(ranges, ", ");
}

// One row per group of `depth` (or node) that holds ranks.
std::string RanksTable(const Cluster& cluster, const Placement& placement, int depth) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::vector<int64_t>> ranks_on(cluster.nodes().size());
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    ranks_on[placement.ranks[rank].node].push_back(static_cast<int64_t>(rank));
  }
  const int count = static_cast<int>(cluster.nodes().size());
  for (int node = 0; node < count;) {
    const bool group = depth < cluster.node_depth();
    const int end = group ? cluster.groups()[cluster.GroupOf(node, depth)].end_node : node + 1;
    std::vector<int64_t> ranks;
    int nodes = 0;
    const int first = node;
    for (; node < end; ++node) {
      nodes += !ranks_on[node].empty();
      ranks.insert(ranks.end(), ranks_on[node].begin(), ranks_on[node].end());
    }
    if (ranks.empty()) continue;
    const topology::Node& at = cluster.nodes()[first];
    const std::string path =
        depth == 0 ? "all"
                   : absl::StrJoin(
                         at.at.begin(),
                         at.at.begin() + std::min<int>(depth, static_cast<int>(at.at.size())), "/");
    rows.push_back({group ? path : absl::StrCat(path, path.empty() ? "" : "/", at.name),
                    absl::StrCat(nodes), absl::StrCat(ranks.size()), RangesOf(std::move(ranks))});
  }
  std::string name = depth == 0 ? "CLUSTER" : cluster.DepthName(depth);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  return FormatTable({name, "NODES", "RANKS", "WHICH"}, rows);
}

int GroupsUsed(const Cluster& cluster, const Placement& placement, int depth) {
  std::vector<int> groups;
  for (const scheduler::Device& at : placement.ranks) {
    groups.push_back(depth < cluster.node_depth() ? cluster.GroupOf(at.node, depth) : at.node);
  }
  std::sort(groups.begin(), groups.end());
  return static_cast<int>(std::unique(groups.begin(), groups.end()) - groups.begin());
}

std::string BytesTable(const Cluster& cluster, const PlacementAnswer& answer) {
  std::vector<std::string> heading = {"BYTES PER STEP"};
  for (const int depth : AccountedDepths(cluster)) heading.push_back(cluster.DepthName(depth));
  heading.push_back("exposed");
  const bool timed = !answer.step_times.empty();
  if (timed) heading.push_back("step");
  // What counts before bytes, where there is any of it.
  bool pipelines = answer.placement->cost.split_pipelines > 0;
  bool contexts = answer.placement->cost.split_contexts > 0;
  for (const scheduler::Comparison& other : answer.compared) {
    pipelines = pipelines || other.cost.split_pipelines > 0;
    contexts = contexts || other.cost.split_contexts > 0;
  }
  if (pipelines) heading.push_back("split pipelines");
  if (contexts) heading.push_back("split contexts");
  std::vector<std::vector<std::string>> rows;
  size_t next = 0;  // of step_times, which are in the same order
  const auto add = [&](const std::string& name, const Cost& cost) {
    std::vector<std::string> row = {name};
    for (const int depth : AccountedDepths(cluster)) {
      row.push_back(common::FormatDecimal(cost.bytes[depth], "B"));
    }
    row.push_back(common::FormatSeconds(cost.exposed_seconds));
    if (timed) row.push_back(common::FormatSeconds(answer.step_times[next++].seconds));
    if (pipelines) row.push_back(absl::StrCat(cost.split_pipelines));
    if (contexts) row.push_back(absl::StrCat(cost.split_contexts));
    rows.push_back(std::move(row));
  };
  add("placed", answer.placement->cost);
  for (const scheduler::Comparison& other : answer.compared) add(other.name, other.cost);
  return FormatTable(heading, rows);
}

// The outermost depth that any bytes pass.
int OutermostUsed(const Cluster& cluster, const Cost& cost) {
  for (int depth = 0; depth <= cluster.node_depth(); ++depth) {
    if (cost.bytes[depth] > 0) return depth;
  }
  return cluster.AccountedDepth(cluster.node_depth());
}

std::string Reason(const Cluster& cluster, const Shape& shape, const Placement& placement) {
  std::vector<std::string> order;
  for (const Dimension dimension : placement.order) {
    if (Degree(shape, dimension) > 1) order.push_back(planner::NameIn(shape.degrees, dimension));
  }
  const Cost& cost = placement.cost;
  const int depth = OutermostUsed(cluster, cost);
  const std::string outermost = cluster.DepthName(depth);
  std::string text;
  if (order.size() >= 2) {
    text = absl::StrCat("Ranks count ", absl::StrJoin(order, ", then "),
                        ": what comes first stays nearest; of all arrangements tried this sends "
                        "fewest bytes across the outermost level used (",
                        outermost, ").");
  } else if (depth > 0) {
    text = absl::StrCat("Nothing leaves one ", outermost, ".");
  } else {
    text = cluster.levels().empty()
               ? "The cluster has no levels: all nodes are equally near to each other."
               : absl::StrCat("The ranks do not fit into one ", cluster.levels()[0], ".");
  }
  const auto split = [&](int64_t count, const char* one, const char* many) {
    if (count == 0) return;
    absl::StrAppend(&text, " ", count, count == 1 ? one : many, " across several groups of ",
                    cluster.DepthName(cluster.pipeline_depth()), ", as few as fit.");
  };
  split(cost.split_pipelines, " pipeline lies", " pipelines lie");
  split(cost.split_contexts, " context group lies", " context groups lie");
  return text + "\n";
}

std::string PlacedText(const Cluster& cluster, const Shape& shape, const PlacementAnswer& answer) {
  constexpr int kMostRows = 40;
  const Placement& placement = *answer.placement;
  const int nodes = GroupsUsed(cluster, placement, cluster.node_depth());
  std::string text = absl::StrCat("placed: ", placement.ranks.size(),
                                  placement.ranks.size() == 1 ? " rank" : " ranks", " on ", nodes,
                                  nodes == 1 ? " node" : " nodes", " (", placement.kind, "), in ",
                                  common::FormatSeconds(answer.seconds), "\n\n");
  // As deep as fits on a screen.
  int depth = cluster.node_depth();
  while (depth > 0 && GroupsUsed(cluster, placement, depth) > kMostRows) --depth;
  absl::StrAppend(&text, RanksTable(cluster, placement, depth), "\n", BytesTable(cluster, answer),
                  "\n", Reason(cluster, shape, placement));
  if (shape.spares > 0) {
    std::vector<std::string> names;
    for (const int node : placement.spares) names.push_back(cluster.nodes()[node].name);
    absl::StrAppend(&text, "Spares: ", names.empty() ? "none are free" : absl::StrJoin(names, ", "),
                    ".\n");
  }
  return text;
}

}  // namespace

Json ToJson(const Cluster& cluster, const Shape& shape, const PlacementAnswer& answer) {
  if (!answer.placement) {
    Json told = RefusalJson(answer.refusal, answer.shard_groups);
    told["seconds"] = answer.seconds;
    return told;
  }
  const Placement& placement = *answer.placement;
  Json told = {{"decision", "placed"}, {"kind", placement.kind}};
  told["order"] = OrderJson(shape, placement);
  told["ranks"] = RanksJson(MeshOf(cluster, shape, placement));
  Json& spares = told["spares"] = Json::array();
  for (const int node : placement.spares) spares.push_back(cluster.nodes()[node].name);
  told["traffic"] = TrafficJson(shape);
  told["bytes_per_step"] = BytesByLevel(cluster, placement.cost);
  Json& compared = told["compared"] = Json::object();
  for (const scheduler::Comparison& other : answer.compared) {
    compared[other.name] = BytesByLevel(cluster, other.cost);
  }
  for (const scheduler::Comparison& other : answer.compared) {
    told["compared_exposed_seconds"][other.name] = other.cost.exposed_seconds;
    told["compared_split_pipelines"][other.name] = other.cost.split_pipelines;
    told["compared_split_contexts"][other.name] = other.cost.split_contexts;
  }
  told["exposed_seconds"] = placement.cost.exposed_seconds;
  told["step_seconds"] = nullptr;
  for (const scheduler::OrderTime& time : answer.step_times) {
    (time.order == "placed" ? told["step_seconds"] : told["compared_step_seconds"][time.order]) =
        time.seconds;
  }
  told["split_pipelines"] = placement.cost.split_pipelines;
  told["split_contexts"] = placement.cost.split_contexts;
  told["seconds"] = answer.seconds;
  return told;
}

std::string PlacementText(const Cluster& cluster, const Shape& shape,
                          const PlacementAnswer& answer) {
  if (answer.placement) return PlacedText(cluster, shape, answer);
  const scheduler::Refusal& refusal = answer.refusal;
  std::string text =
      absl::StrCat(refusal.infeasible ? "infeasible: " : "waiting: ", refusal.reason, "\n");
  if (!refusal.infeasible) absl::StrAppend(&text, refusal.starts_when, "\n");
  if (refusal.nearest) absl::StrAppend(&text, "nearest: ", refusal.nearest->text, "\n");
  return text;
}

}  // namespace strata::client
