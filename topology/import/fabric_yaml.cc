// Slurm's topology.yaml and Topograph's models.
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "spec/plain_yaml.h"
#include "spec/yaml_tree.h"
#include "topology/device_kind.h"
#include "topology/import/fabric.h"
#include "topology/import/name_range.h"
#include "topology/import/topology_file.h"

namespace strata::topology {
namespace {

using spec::YamlNode;
using Kind = spec::YamlNode::Kind;

std::unique_ptr<YamlNode> Parse(absl::string_view text, const char* name,
                                spec::Problems& problems) {
  std::unique_ptr<YamlNode> root = spec::ParsePlainYaml(text);
  if (root != nullptr) return root;
  return spec::ParseYaml(text, problems, {.name = name, .most_bytes = kMostTopologyBytes});
}

class FabricReader {
 public:
  explicit FabricReader(spec::Problems& problems) : problems_(problems) {}

  void Report(const YamlNode& node, absl::string_view path, absl::string_view what) {
    problems_.Add({node.position, std::string(path), std::string(what), ""});
  }

  // The child that must be a list; an absent one is empty.
  const std::vector<YamlNode::Child>& List(const YamlNode& section, const char* key) {
    static const auto& none = *new std::vector<YamlNode::Child>();
    const YamlNode::Child* child = section.Find(key);
    if (child == nullptr || child->node->kind == Kind::kNull) return none;
    if (child->node->kind == Kind::kSequence) return child->node->children;
    Report(*child->node, key, absl::StrCat("must be a list, not ", spec::KindOf(*child->node)));
    return none;
  }

  std::string Text(const YamlNode& section, const char* key) {
    const YamlNode::Child* child = section.Find(key);
    if (child == nullptr) return "";
    if (child->node->kind == Kind::kScalar) return child->node->text;
    Report(*child->node, key, absl::StrCat("must be a text, not ", spec::KindOf(*child->node)));
    return "";
  }

  // Names: one host list, or a list of them.
  std::vector<std::string> Names(const YamlNode& section, const char* key) {
    std::vector<std::string> names;
    const YamlNode::Child* child = section.Find(key);
    if (child == nullptr) return names;
    const auto add = [&](const YamlNode& node) {
      if (node.kind != Kind::kScalar) {
        return Report(node, key, absl::StrCat("must be names, not ", spec::KindOf(node)));
      }
      auto some = ExpandHosts(node.text);
      if (!some.ok()) return Report(node, key, some.status().message());
      names.insert(names.end(), some->begin(), some->end());
    };
    if (child->node->kind == Kind::kSequence) {
      for (const YamlNode::Child& element : child->node->children) add(*element.node);
    } else {
      add(*child->node);
    }
    return names;
  }

  // A list of groups, whose names stand under `name_key`, or a section of groups by name.
  template <typename Add>
  void Groups(const YamlNode& section, const char* key, const char* name_key, Add add) {
    const YamlNode::Child* list = section.Find(key);
    if (list == nullptr || list->node->kind == Kind::kNull) return;
    if (list->node->kind == Kind::kScalar) {
      return Report(*list->node, key,
                    absl::StrCat("must be a list, not ", spec::KindOf(*list->node)));
    }
    for (const YamlNode::Child& child : list->node->children) {
      if (child.node->kind != Kind::kMapping) {
        Report(*child.node, key,
               absl::StrCat("must be a section, not ", spec::KindOf(*child.node)));
        continue;
      }
      FabricGroup group{.name = child.key.empty() ? Text(*child.node, name_key) : child.key,
                        .position = child.node->position};
      if (group.name.empty()) {
        Report(*child.node, key, absl::StrCat("required key ", name_key, " is missing"));
        continue;
      }
      add(*child.node, std::move(group));
    }
  }

  bool IsSection(const YamlNode& node, const char* key) {
    if (node.kind == Kind::kMapping) return true;
    Report(node, key, absl::StrCat("must be a section, not ", spec::KindOf(node)));
    return false;
  }

  // Whether a section, or a list of sections with names, has one of this name.
  bool HasNamed(const YamlNode& groups, const std::string& name) {
    for (const YamlNode::Child& child : groups.children) {
      if ((child.key.empty() ? Text(*child.node, "name") : child.key) == name) return true;
    }
    return false;
  }

  void SlurmTopology(const YamlNode& topology, Fabric& fabric) {
    if (const YamlNode::Child* tree = topology.Find("tree")) {
      if (!IsSection(*tree->node, "tree")) return;
      Groups(*tree->node, "switches", "switch", [&](const YamlNode& node, FabricGroup group) {
        group.children = Names(node, "children");
        group.nodes = Names(node, "nodes");
        fabric.switches.push_back(std::move(group));
      });
      return;
    }
    const YamlNode& block = *topology.Find("block")->node;
    if (!IsSection(block, "block")) return;
    Groups(block, "blocks", "block", [&](const YamlNode& node, FabricGroup group) {
      group.nodes = Names(node, "nodes");
      fabric.blocks.push_back(std::move(group));
    });
    for (const YamlNode::Child& size : List(block, "block_sizes")) {
      int64_t value = 0;
      if (fabric.block_sizes.empty()) fabric.block_sizes_at = size.node->position;
      if (!absl::SimpleAtoi(size.node->text, &value) || value < 1) {
        Report(*size.node, "block_sizes", "must be a number of nodes");
      } else {
        fabric.block_sizes.push_back(value);
      }
    }
  }

 private:
  spec::Problems& problems_;
};

// As Slurm reads it.
bool IsTrue(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower == "true" || lower == "yes" || lower == "on" || lower == "1";
}

}  // namespace

void ReadSlurmYaml(absl::string_view text, Fabric& fabric, spec::Problems& problems) {
  const std::unique_ptr<YamlNode> root = Parse(text, "Slurm topology", problems);
  if (root == nullptr) return;
  FabricReader reader(problems);
  const YamlNode* chosen = nullptr;
  for (const YamlNode::Child& child : root->children) {
    if (child.node->Find("tree") == nullptr && child.node->Find("block") == nullptr) continue;
    const YamlNode::Child* is_default = child.node->Find("cluster_default");
    if (chosen == nullptr) chosen = child.node.get();
    if (is_default == nullptr || !IsTrue(is_default->node->text)) continue;
    chosen = child.node.get();
    break;
  }
  if (chosen == nullptr) {
    return reader.Report(*root, "", "must be a list of topologies, one of them with tree or block");
  }
  reader.SlurmTopology(*chosen, fabric);
}

namespace {

// The NVLink domain that a block's labels or annotations name, the innermost there is; else empty.
std::string DomainOf(FabricReader& reader, const YamlNode& block) {
  for (const char* key :
       {"nvidia.com/gpu.clique", "accelerator.topograph.run/sub-domain",
        "accelerator.topology.test/sub-domain", "accelerator.topograph.run/domain",
        "accelerator.topology.test/domain", "network.topology.nvidia.com/accelerator",
        "accelerated.topology.nvidia.com/level-0"}) {
    for (const char* section : {"labels", "annotations"}) {
      const YamlNode::Child* labels = block.Find(section);
      if (labels == nullptr || labels->node->kind != Kind::kMapping) continue;
      if (std::string name = reader.Text(*labels->node, key); !name.empty()) return name;
    }
  }
  return "";
}

}  // namespace

void ReadTopograph(absl::string_view text, Fabric& fabric, spec::Problems& problems) {
  const std::unique_ptr<YamlNode> root = Parse(text, "Topograph model", problems);
  if (root == nullptr) return;
  FabricReader reader(problems);
  // Blocks of one NVLink domain are one; blocks without one only say which nodes a switch has.
  std::map<std::string, std::vector<std::string>> nodes_of;
  std::map<std::string, FabricGroup> domains;
  const auto into_domain = [&](const std::string& nvlink, const FabricGroup& group) {
    if (nvlink.empty()) return;
    FabricGroup& domain =
        domains.try_emplace(nvlink, FabricGroup{.name = nvlink, .position = group.position})
            .first->second;
    domain.nodes.insert(domain.nodes.end(), group.nodes.begin(), group.nodes.end());
  };
  reader.Groups(*root, "capacity_blocks", "name", [&](const YamlNode& node, FabricGroup group) {
    group.nodes = reader.Names(node, "nodes");
    nodes_of[group.name] = group.nodes;
    const std::string type = reader.Text(node, "type");
    for (const std::string& name : group.nodes) {
      fabric.kinds[name] = type.empty() ? "" : KindOfProduct(type);
    }
    into_domain(reader.Text(node, "nvlink"), group);
  });
  // Newer models: blocks without names below a switch.
  std::map<std::string, std::vector<std::string>> nodes_below;
  for (const YamlNode::Child& block : reader.List(*root, "blocks")) {
    if (block.node->kind != Kind::kMapping) {
      reader.Report(*block.node, "blocks",
                    absl::StrCat("must be a section, not ", spec::KindOf(*block.node)));
      continue;
    }
    const FabricGroup group = {.nodes = reader.Names(*block.node, "nodes"),
                               .position = block.node->position};
    for (const std::string& name : group.nodes) fabric.kinds.try_emplace(name);
    into_domain(DomainOf(reader, *block.node), group);
    const std::string above = reader.Text(*block.node, "switch");
    if (above.empty()) continue;
    const YamlNode::Child* switches = root->Find("switches");
    if (switches == nullptr || !reader.HasNamed(*switches->node, above)) {
      reader.Report(*block.node, "blocks", absl::StrCat("there is no switch ", above));
    }
    std::vector<std::string>& below = nodes_below[above];
    below.insert(below.end(), group.nodes.begin(), group.nodes.end());
  }
  reader.Groups(*root, "nodes", "name", [&](const YamlNode& node, FabricGroup group) {
    const YamlNode::Child* attributes = node.Find("attributes");
    group.nodes = {group.name};
    into_domain(reader.Text(attributes == nullptr ? node : *attributes->node, "nvlink"), group);
  });
  reader.Groups(*root, "switches", "name", [&](const YamlNode& node, FabricGroup group) {
    group.children = reader.Names(node, "switches");
    group.nodes = reader.Names(node, "nodes");
    const std::vector<std::string>& below = nodes_below[group.name];
    group.nodes.insert(group.nodes.end(), below.begin(), below.end());
    for (const std::string& block : reader.Names(node, "capacity_blocks")) {
      const auto at = nodes_of.find(block);
      if (at == nodes_of.end()) {
        reader.Report(node, group.name, absl::StrCat("there is no capacity block ", block));
      } else {
        group.nodes.insert(group.nodes.end(), at->second.begin(), at->second.end());
      }
    }
    fabric.switches.push_back(std::move(group));
  });
  for (auto& [name, domain] : domains) fabric.blocks.push_back(std::move(domain));
}

}  // namespace strata::topology
