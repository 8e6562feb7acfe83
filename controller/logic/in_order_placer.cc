// The first free devices of one kind, in the nodes' order: ranks next to each other share a node.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/core.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

struct Kind {
  int devices = 0;
  int free = 0;
  std::vector<std::string> nodes;  // "n0: 1"
};

bool Matches(const std::string& asked, const std::string& kind) {
  return asked == "gpu" ? kind != "cpu" : asked == kind;
}

std::string Devices(int64_t count, const std::string& kind) {
  return absl::StrCat(count, " ", kind, count == 1 ? " device" : " devices");
}

std::string Arithmetic(const std::map<std::string, Kind>& kinds) {
  constexpr size_t kNamed = 8;
  std::vector<std::string> parts;
  for (const auto& [name, kind] : kinds) {
    std::vector<std::string> nodes(kind.nodes.begin(),
                                   kind.nodes.begin() + std::min(kNamed, kind.nodes.size()));
    if (kind.nodes.size() > kNamed) nodes.push_back("…");
    parts.push_back(
        absl::StrCat(Devices(kind.devices, name), " (", absl::StrJoin(nodes, ", "), ")"));
  }
  return parts.empty() ? "no device of that kind" : absl::StrJoin(parts, " and ");
}

// "; away: n1: 1 device, not heard from …", or nothing.
std::string Away(const Placer::View& view, const std::string& asked) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> parts;
  size_t away = 0;
  for (const Placer::View::Node& node : view.nodes) {
    if (node.away.empty() || !Matches(asked, node.kind) || ++away > kNamed) continue;
    parts.push_back(absl::StrCat(ShortName(node.name), ": ", node.devices,
                                 node.devices == 1 ? " device, " : " devices, ", node.away));
  }
  if (away > kNamed) parts.push_back(absl::StrCat(away - kNamed, " more"));
  return parts.empty() ? "" : absl::StrCat("; away: ", absl::StrJoin(parts, "; "));
}

bool NobodyIsThere(const Placer::View& view) {
  return std::none_of(view.nodes.begin(), view.nodes.end(),
                      [](const Placer::View::Node& node) { return node.away.empty(); });
}

class InOrder final : public Placer {
 public:
  Decision Place(const v1::JobSpec& spec, const View& view) const override {
    const int64_t ranks = RanksOf(spec);
    const std::string asked = spec.resources().device().empty() ? "cpu" : spec.resources().device();
    std::map<std::string, Kind> kinds;
    std::vector<std::string> order;  // of kinds, as the nodes come
    for (const View::Node& node : view.nodes) {
      if (!Matches(asked, node.kind) || !node.away.empty()) continue;
      if (kinds.find(node.kind) == kinds.end()) order.push_back(node.kind);
      Kind& kind = kinds[node.kind];
      kind.devices += node.devices;
      kind.free += static_cast<int>(node.free.size());
      kind.nodes.push_back(absl::StrCat(ShortName(node.name), ": ", node.devices));
    }
    for (const std::string& kind : order) {
      if (kinds[kind].free >= ranks) return {.ranks = Take(view, kind, ranks)};
    }
    Decision decision;
    if (NobodyIsThere(view)) {
      decision.reason = absl::StrCat("the job needs ", Devices(ranks, asked),
                                     "; no node has joined the cluster yet", Away(view, asked));
      return decision;
    }
    int most = 0, most_free = 0;
    for (const auto& [name, kind] : kinds) {
      most = std::max(most, kind.devices);
      most_free = std::max(most_free, kind.free);
    }
    decision.infeasible = most < ranks;
    decision.reason =
        decision.infeasible
            ? absl::StrCat(
                  "the job needs ", Devices(ranks, asked), "; the cluster has ", Arithmetic(kinds),
                  most > 0 ? absl::StrCat(" — ", ranks - most, " too few") : "", Away(view, asked))
            : absl::StrCat("the job needs ", Devices(ranks, asked), "; ", most_free, " of ", most,
                           most_free == 1 ? " is free" : " are free");
    return decision;
  }

 private:
  static std::vector<Device> Take(const View& view, const std::string& kind, int64_t ranks) {
    std::vector<Device> taken;
    for (const View::Node& node : view.nodes) {
      if (node.kind != kind) continue;
      for (const int device : node.free) {
        if (static_cast<int64_t>(taken.size()) == ranks) return taken;
        taken.push_back({node.name, device});
      }
    }
    return taken;
  }
};

}  // namespace

std::unique_ptr<Placer> InOrderPlacer() { return std::make_unique<InOrder>(); }

}  // namespace strata::controller
