#include "topology/import/fabric.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::topology {
namespace {

constexpr int kDeepestTree = 16;

class Describer {
 public:
  Describer(const Fabric& fabric, const ImportOptions& options, spec::Problems& problems)
      : fabric_(fabric), options_(options), problems_(problems) {}

  Description Describe() {
    Index(fabric_.switches, "switch", switch_of_);
    Index(fabric_.blocks, "block", block_of_);
    FindParents();
    const std::vector<std::vector<std::string>> paths = Paths();
    size_t height = 0;
    for (const auto& path : paths) height = std::max(height, path.size());
    const std::vector<std::pair<std::string, int64_t>> sizes = LargerSizes();
    Description description;
    for (size_t i = height; i-- > 0;) description.levels.push_back(absl::StrCat("tier", i));
    for (const auto& [level, blocks] : sizes) description.levels.push_back(level);
    description.levels.push_back("domain");
    description.domain_level = "domain";
    std::set<std::string> names;
    for (const auto& [node, at] : switch_of_) names.insert(node);
    for (const auto& [node, at] : block_of_) names.insert(node);
    for (const auto& [node, kind] : fabric_.kinds) names.insert(node);
    for (const std::string& name : names) {
      Node node{.name = name, .kind = options_.device, .devices = options_.devices};
      const auto kind = fabric_.kinds.find(name);
      if (kind != fabric_.kinds.end() && !kind->second.empty()) node.kind = kind->second;
      for (int i = 0; i < node.devices; ++i) node.free.push_back(i);
      node.at.resize(description.levels.size());
      if (const auto at = switch_of_.find(name); at != switch_of_.end()) {
        std::copy(paths[at->second].begin(), paths[at->second].end(), node.at.begin());
      }
      if (const auto at = block_of_.find(name); at != block_of_.end()) {
        for (size_t i = 0; i < sizes.size(); ++i) {
          node.at[height + i] = absl::StrCat(sizes[i].first, "-", at->second / sizes[i].second);
        }
        node.at.back() = fabric_.blocks[at->second].name;
      }
      description.nodes.push_back(std::move(node));
    }
    return description;
  }

 private:
  void Report(const FabricGroup& group, std::string what, std::string remedy = "") {
    problems_.Add({group.position, spec::Shown(group.name), std::move(what), std::move(remedy)});
  }

  // Which group each node lies in, and that no two have one name.
  void Index(const std::vector<FabricGroup>& groups, const char* kind,
             std::map<std::string, int>& group_of) {
    std::set<std::string> names;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (!names.insert(groups[i].name).second) {
        Report(groups[i], absl::StrCat("two of this ", kind, "'s name"), "remove one of them");
      }
      for (const std::string& node : groups[i].nodes) {
        const auto [at, is_new] = group_of.try_emplace(node, static_cast<int>(i));
        if (is_new) continue;
        Report(groups[i],
               absl::StrCat("node ", spec::Shown(node), " lies in ", kind, " ",
                            spec::Shown(groups[at->second].name), " already"),
               "name each node once");
      }
    }
  }

  void FindParents() {
    std::map<std::string, int> by_name;
    const std::vector<FabricGroup>& switches = fabric_.switches;
    for (size_t i = 0; i < switches.size(); ++i) {
      by_name.try_emplace(switches[i].name, static_cast<int>(i));
    }
    parents_.assign(switches.size(), -1);
    for (size_t i = 0; i < switches.size(); ++i) {
      for (const std::string& child : switches[i].children) {
        const auto at = by_name.find(child);
        if (at == by_name.end()) {
          Report(switches[i], absl::StrCat("there is no switch ", spec::Shown(child)),
                 "describe it, or remove it here");
        } else if (parents_[at->second] >= 0) {
          Report(switches[i],
                 absl::StrCat("switch ", spec::Shown(child), " lies below ",
                              spec::Shown(switches[parents_[at->second]].name), " already"),
                 "a tree has one way up: keep one of them");
        } else {
          parents_[at->second] = static_cast<int>(i);
        }
      }
    }
  }

  // Of each switch: the names from the root to it.
  std::vector<std::vector<std::string>> Paths() {
    std::vector<std::vector<std::string>> paths;
    for (const FabricGroup& group : fabric_.switches) {
      std::vector<std::string> path;
      int at = static_cast<int>(paths.size());
      for (; at >= 0 && path.size() <= kDeepestTree; at = parents_[at]) {
        path.push_back(fabric_.switches[at].name);
      }
      if (at >= 0) {
        Report(group, absl::StrCat("lies in a circle, or more than ", kDeepestTree, " deep"));
        path.clear();
      }
      std::reverse(path.begin(), path.end());
      paths.push_back(std::move(path));
    }
    return paths;
  }

  // Level and blocks of each size above the base, the largest first.
  std::vector<std::pair<std::string, int64_t>> LargerSizes() {
    std::vector<std::pair<std::string, int64_t>> sizes;
    const std::vector<int64_t>& all = fabric_.block_sizes;
    for (size_t i = 0; i < all.size() && !fabric_.blocks.empty(); ++i) {
      if (all[i] < 1 || all[i] % all[0] != 0 || (i > 0 && all[i] <= all[i - 1])) {
        problems_.Add(
            {fabric_.block_sizes_at, "BlockSizes",
             absl::StrCat(all[i], " is not a larger multiple of the base block size ", all[0])});
        return {};
      }
      if (i > 0) sizes.insert(sizes.begin(), {absl::StrCat("block", all[i]), all[i] / all[0]});
    }
    return sizes;
  }

  const Fabric& fabric_;
  const ImportOptions& options_;
  spec::Problems& problems_;
  std::map<std::string, int> switch_of_;  // by node
  std::map<std::string, int> block_of_;
  std::vector<int> parents_;  // of switches
};

}  // namespace

Description DescribeFabric(const Fabric& fabric, const ImportOptions& options,
                           spec::Problems& problems) {
  return Describer(fabric, options, problems).Describe();
}

}  // namespace strata::topology
