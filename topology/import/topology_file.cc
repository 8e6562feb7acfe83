#include "topology/import/topology_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "spec/plain_yaml.h"
#include "spec/problems.h"
#include "spec/scalars.h"
#include "spec/suggest.h"
#include "spec/yaml_tree.h"
#include "topology/import/name_range.h"

namespace strata::topology {
namespace {

using spec::KindOf;
using spec::Position;
using spec::Shown;
using spec::YamlNode;
using Kind = spec::YamlNode::Kind;
using Words = std::vector<std::string>;
// Paths are made only when there is something to say: most files have no problems.
using Path = absl::FunctionRef<std::string()>;

constexpr spec::FileKind kFileKind = {
    .name = "topology",
    .most_bytes = kMostTopologyBytes,
    .when_too_large = "write many equal nodes in one line: name: \"n[0-383]\""};
constexpr size_t kLongestText = 256;
constexpr char kExampleNode[] = "- {name: n0, at: {}, device: h100, devices: 8}";

bool IsReserved(absl::string_view level) {
  return level == "node" || level == "device" || level == "root";
}

class Reader {
 public:
  explicit Reader(spec::Problems& problems) : problems_(problems) {}

  void Read(const YamlNode& root) {
    if (root.kind == Kind::kNull) return Missing(root.position, "nodes", kExampleNode);
    if (root.kind != Kind::kMapping) {
      return Report(root.position, "",
                    absl::StrCat("must be a section of keys, not ", KindOf(root)),
                    "a topology file begins like `levels: [zone, domain]`");
    }
    CheckKeys(root, {"levels", "domain_level", "pipeline_level", "links", "nodes"},
              [] { return std::string(); });
    if (const auto* levels = root.Find("levels")) ReadLevels(*levels->node);
    ReadLevelNames(root);
    if (const auto* links = root.Find("links")) ReadLinks(*links->node);
    const auto* nodes = root.Find("nodes");
    if (nodes == nullptr) return Missing(root.position, "nodes", kExampleNode);
    ReadNodes(*nodes->node);
  }

  Description Take() { return std::move(description_); }

 private:
  void Report(const Position& position, std::string path, std::string what,
              std::string remedy = "") {
    problems_.Add({position, std::move(path), std::move(what), std::move(remedy)});
  }
  void Missing(const Position& position, std::string path, absl::string_view example) {
    if (problems_.Concerns(path)) return;
    Report(position, std::move(path), "required key is missing", absl::StrCat("add it: ", example));
  }

  // Unknown keys. What one seems to stand for is not missing as well.
  void CheckKeys(const YamlNode& section, const Words& keys, Path path) {
    for (const YamlNode::Child& child : section.children) {
      if (child.keyless || std::find(keys.begin(), keys.end(), child.key) != keys.end()) continue;
      const std::string at = spec::PathOf(path(), child.key);
      if (problems_.full()) {
        Report(child.key_position, at, "unknown field");
        continue;
      }
      const std::string meant = spec::Nearest(child.key, keys);
      Report(child.key_position, at, "unknown field",
             meant.empty() ? absl::StrCat("the keys here are ", absl::StrJoin(keys, ", "))
                           : absl::StrCat("did you mean ", meant, "?"));
      if (!meant.empty() && section.Find(meant) == nullptr) {
        problems_.MarkDoubtful(spec::PathOf(path(), meant));
      }
    }
  }

  bool IsKind(const YamlNode& node, Kind kind, absl::string_view wanted, Path path) {
    if (node.kind == kind) return true;
    Report(node.position, path(), absl::StrCat("must be ", wanted, ", not ", KindOf(node)));
    return false;
  }

  bool TextOf(const YamlNode& node, std::string& text, Path path) {
    if (!IsKind(node, Kind::kScalar, "a text", path)) return false;
    const bool printable = std::all_of(node.text.begin(), node.text.end(), [](char c) {
      return static_cast<uint8_t>(c) >= 0x20 && c != 0x7f;
    });
    if (node.text.empty() || node.text.size() > kLongestText || !printable) {
      Report(node.position, path(),
             node.text.empty() ? "an empty text"
             : !printable      ? absl::StrCat("a text with control characters: ", Shown(node.text))
                               : absl::StrCat("a text of more than ", kLongestText, " bytes"));
      return false;
    }
    text = node.text;
    return true;
  }

  template <typename Value>
  bool ScalarOf(const YamlNode& node, absl::StatusOr<Value> (*parse)(absl::string_view),
                absl::string_view wanted, Value& value, Path path) {
    if (node.kind != Kind::kScalar || node.quoted) {
      Report(node.position, path(), absl::StrCat("must be ", wanted, ", not ", KindOf(node)));
      return false;
    }
    const absl::StatusOr<Value> parsed = parse(node.text);
    if (!parsed.ok()) {
      Report(node.position, path(),
             absl::StrCat("must be ", wanted, ": ", Shown(node.text), " ",
                          absl::string_view(parsed.status().message())));
      return false;
    }
    value = *parsed;
    return true;
  }

  // A whole number in [0, most].
  bool CountOf(const YamlNode& node, int most, int& count, Path path) {
    int64_t value = 0;
    if (!ScalarOf(node, &spec::ParseCount, "a whole number", value, path)) return false;
    if (value < 0 || value > most) {
      Report(node.position, path(),
             absl::StrCat("must be between 0 and ", most, ", not ", Shown(node.text)));
      return false;
    }
    count = static_cast<int>(value);
    return true;
  }

  bool IsLevel(absl::string_view name) const {
    return std::find(description_.levels.begin(), description_.levels.end(), name) !=
           description_.levels.end();
  }

  std::string LevelsHint(absl::string_view name, Words names) const {
    const std::string meant = spec::Nearest(name, names);
    if (!meant.empty()) return absl::StrCat("did you mean ", meant, "?");
    return names.empty() ? std::string("add it to levels")
                         : absl::StrCat("the levels are ", absl::StrJoin(names, ", "));
  }

  void ReadLevels(const YamlNode& node) {
    const auto path = [] { return std::string("levels"); };
    levels_known_ = IsKind(node, Kind::kSequence, "a list such as [zone, domain]", path);
    if (!levels_known_) return;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const YamlNode& element = *node.children[i].node;
      const auto at = [&] { return absl::StrCat("levels[", i, "]"); };
      std::string level;
      bool good = TextOf(element, level, at);
      if (good && (IsReserved(level) || IsLevel(level))) {
        Report(element.position, at(),
               IsReserved(level)
                   ? absl::StrCat(level, " cannot name a level (every cluster has it already)")
                   : absl::StrCat(level, " stands twice"),
               "remove it");
        good = IsLevel(level);
      }
      levels_known_ = levels_known_ && good;
      if (good && !IsLevel(level)) description_.levels.push_back(std::move(level));
    }
  }

  // domain_level and pipeline_level.
  void ReadLevelNames(const YamlNode& root) {
    const auto read = [&](const char* key, std::string& level) -> const YamlNode* {
      const YamlNode::Child* child = root.Find(key);
      const auto path = [&] { return std::string(key); };
      if (child == nullptr || !TextOf(*child->node, level, path)) return nullptr;
      if (IsLevel(level)) return child->node.get();
      if (levels_known_) {
        Report(child->node->position, key, absl::StrCat("there is no level ", Shown(level)),
               LevelsHint(level, description_.levels));
      }
      level.clear();
      return nullptr;
    };
    read("domain_level", description_.domain_level);
    const YamlNode* pipeline = read("pipeline_level", description_.pipeline_level);
    const Words& levels = description_.levels;
    const auto domain = description_.domain_level.empty()
                            ? levels.end()
                            : std::find(levels.begin(), levels.end(), description_.domain_level);
    if (pipeline != nullptr && domain != levels.end() &&
        std::find(levels.begin(), domain, pipeline->text) == domain && *domain != pipeline->text) {
      Report(pipeline->position, "pipeline_level",
             absl::StrCat(Shown(pipeline->text), " lies inside the domain's level, ", *domain),
             "name that level or an outer one");
    }
  }

  void ReadLinks(const YamlNode& node) {
    const auto path = [] { return std::string("links"); };
    if (!IsKind(node, Kind::kMapping, "a section of levels", path)) return;
    for (const YamlNode::Child& child : node.children) {
      if (child.keyless) continue;
      const std::string at = spec::PathOf("links", child.key);
      const bool known = child.key == "node" || child.key == "root" || IsLevel(child.key);
      if (!known && levels_known_) {
        Words names = description_.levels;
        names.insert(names.end(), {"node", "root"});
        Report(child.key_position, at, absl::StrCat("there is no level ", Shown(child.key)),
               LevelsHint(child.key, names));
      }
      const auto here = [&] { return at; };
      if (!IsKind(*child.node, Kind::kMapping, "a section such as {bytes_per_second: 50e9}", here))
        continue;
      ReadLink(*child.node, at, child.key_position, description_.links[child.key]);
    }
  }

  void ReadLink(const YamlNode& node, const std::string& path, const Position& position,
                Link& link) {
    CheckKeys(node, {"bytes_per_second", "latency_seconds", "oversubscription"},
              [&] { return path; });
    const auto read = [&](const char* key, double least, bool above, double& value) {
      const YamlNode::Child* child = node.Find(key);
      if (child == nullptr) return false;
      const auto at = [&] { return spec::PathOf(path, key); };
      if (!ScalarOf(*child->node, &spec::ParseNumber, "a number", value, at)) return true;
      if (above ? value > least : value >= least) return true;
      Report(child->node->position, at(),
             absl::StrCat("must be ", above ? "greater than " : "at least ",
                          spec::ShortestNumber(least), ", not ", Shown(child->node->text)));
      return true;
    };
    if (!read("bytes_per_second", 0, true, link.bytes_per_second)) {
      Missing(position, spec::PathOf(path, "bytes_per_second"), "bytes_per_second: 50e9");
    }
    read("latency_seconds", 0, false, link.latency_seconds);
    read("oversubscription", 1, false, link.oversubscription);
  }

  // ---- nodes

  std::string NodePath(absl::string_view key) const {
    const std::string node = absl::StrCat("nodes[", node_, "]");
    return key.empty() ? node : spec::PathOf(node, key);
  }

  void ReadNodes(const YamlNode& list) {
    const auto path = [] { return std::string("nodes"); };
    if (!IsKind(list, Kind::kSequence, "a list of nodes", path)) return;
    if (list.children.empty()) {
      Report(list.position, "nodes", "an empty list", absl::StrCat("add one: ", kExampleNode));
    }
    description_.nodes.reserve(list.children.size());
    first_line_.reserve(list.children.size());
    for (node_ = 0; node_ < list.children.size(); ++node_) {
      const YamlNode& node = *list.children[node_].node;
      const auto here = [&] { return NodePath(""); };
      if (!IsKind(node, Kind::kMapping, "a section such as {name: n0, device: h100, devices: 8}",
                  here))
        continue;
      if (!ReadNode(node)) return;
    }
  }

  // False when no more nodes are to be read.
  bool ReadNode(const YamlNode& section) {
    static const auto& keys = *new Words{"name", "at", "device", "devices", "free", "healthy"};
    CheckKeys(section, keys, [&] { return NodePath(""); });
    Node node;
    node.at.resize(description_.levels.size());
    const YamlNode* name = Required(section, "name", "name: n0");
    const bool named =
        name != nullptr && TextOf(*name, node.name, [&] { return NodePath("name"); });
    if (const auto* at = section.Find("at")) ReadAt(*at->node, node);
    const YamlNode* device = Required(section, "device", "device: h100");
    if (device != nullptr) TextOf(*device, node.kind, [&] { return NodePath("device"); });
    const YamlNode* devices = Required(section, "devices", "devices: 8");
    const bool counted = devices != nullptr && CountOf(*devices, kMostDevices, node.devices,
                                                       [&] { return NodePath("devices"); });
    if (!counted) node.devices = kMostDevices;  // what is free is still looked at
    ReadFree(section.Find("free"), node);
    if (const auto* healthy = section.Find("healthy")) {
      ScalarOf(*healthy->node, &spec::ParseFlag, "true or false", node.healthy,
               [&] { return NodePath("healthy"); });
    }
    if (!named) return true;
    if (node.name.find_first_of("[]") != std::string::npos) {
      return AddRange(*name, section.Find("at"), node);
    }
    return AddNode(*name, std::move(node));
  }

  const YamlNode* Required(const YamlNode& section, const char* key, const char* example) {
    const YamlNode::Child* child = section.Find(key);
    if (child == nullptr) Missing(section.position, NodePath(key), example);
    return child == nullptr ? nullptr : child->node.get();
  }

  void ReadAt(const YamlNode& section, Node& node) {
    const Words& levels = description_.levels;
    const auto here = [&] { return NodePath("at"); };
    if (!IsKind(section, Kind::kMapping, "a section such as {zone: z0}", here)) return;
    for (const YamlNode::Child& child : section.children) {
      if (child.keyless) continue;
      const auto path = [&] { return spec::PathOf(NodePath("at"), child.key); };
      const auto level = std::find(levels.begin(), levels.end(), child.key);
      if (level != levels.end()) {
        TextOf(*child.node, node.at[level - levels.begin()], path);
      } else if (levels_known_) {
        Report(child.key_position, path(), absl::StrCat("there is no level ", Shown(child.key)),
               problems_.full() ? "" : LevelsHint(child.key, levels));
      }
    }
  }

  void ReadFree(const YamlNode::Child* child, Node& node) {
    int count = node.devices;
    if (child != nullptr && child->node->kind == Kind::kSequence) {
      std::set<int> indices;
      for (size_t i = 0; i < child->node->children.size(); ++i) {
        const YamlNode& element = *child->node->children[i].node;
        const auto path = [&] { return absl::StrCat(NodePath("free"), "[", i, "]"); };
        int index = 0;
        if (!CountOf(element, node.devices - 1, index, path)) continue;
        if (!indices.insert(index).second) {
          Report(element.position, path(), absl::StrCat("device ", index, " stands twice"),
                 "remove one of them");
        }
      }
      node.free.assign(indices.begin(), indices.end());
      return;
    }
    if (child != nullptr &&
        !CountOf(*child->node, node.devices, count, [&] { return NodePath("free"); })) {
      return;
    }
    for (int i = 0; i < count; ++i) node.free.push_back(i);
  }

  bool AddNode(const YamlNode& name, Node node) {
    if (static_cast<int64_t>(description_.nodes.size()) >= kMostNodes) {
      Report(name.position, "nodes", absl::StrCat("more than ", kMostNodes, " nodes"));
      return false;
    }
    const auto [first, is_new] = first_line_.try_emplace(node.name, name.position.line);
    if (!is_new) {
      Report(name.position, NodePath("name"),
             absl::StrCat("two nodes are named ", Shown(node.name), " (the first in line ",
                          first->second, ")"),
             "name each node once");
      return !problems_.full();
    }
    description_.nodes.push_back(std::move(node));
    return true;
  }

  // One node for each number in the brackets of the name.
  bool AddRange(const YamlNode& name, const YamlNode::Child* at, const Node& node) {
    const std::string& text = node.name;
    const size_t open = text.find('['), close = text.find(']');
    const auto refuse = [&](absl::string_view why) {
      Report(name.position, NodePath("name"), absl::StrCat(Shown(text), " ", why),
             "many equal nodes are written like name: \"n[0000-0383]\", at: {rack: \"r{i/16}\"}");
      return true;
    };
    if (close == std::string::npos || open > close ||
        text.find_first_of("[]", close + 1) != std::string::npos ||
        text.find('[', open + 1) != std::string::npos) {
      return refuse("must have one pair of brackets");
    }
    const auto range = NumberRange::Parse(text.substr(open + 1, close - open - 1));
    if (!range.ok()) return refuse(range.status().message());
    std::vector<NumberedText> values;
    const auto refuse_value = [&](size_t level, const absl::Status& why) {
      const std::string& key = description_.levels[level];
      Report(at->node->Find(key)->node->position, spec::PathOf(NodePath("at"), key),
             absl::StrCat(Shown(node.at[level]), " ", absl::string_view(why.message())));
      return true;
    };
    for (size_t level = 0; level < node.at.size(); ++level) {
      absl::StatusOr<NumberedText> value = NumberedText::Parse(node.at[level]);
      if (!value.ok()) return refuse_value(level, value.status());
      values.push_back(*std::move(value));
    }
    for (const NumberRange::Piece& piece : range->pieces()) {
      for (int64_t i = piece.first; i <= piece.last; ++i) {
        Node one = node;
        one.name = absl::StrCat(text.substr(0, open), NumberRange::TextOf(i, piece.width),
                                text.substr(close + 1));
        for (size_t level = 0; level < values.size(); ++level) {
          absl::StatusOr<std::string> value = values[level].For(i);
          if (!value.ok()) return refuse_value(level, value.status());
          one.at[level] = *std::move(value);
        }
        if (!AddNode(name, std::move(one))) return false;
      }
    }
    return true;
  }

  spec::Problems& problems_;
  Description description_;
  bool levels_known_ = true;                         // else nothing is said about names of levels
  size_t node_ = 0;                                  // index into the list
  std::unordered_map<std::string, int> first_line_;  // by node's name
};

}  // namespace

absl::StatusOr<Description> ReadTopologyFile(absl::string_view text, const std::string& file) {
  spec::Problems problems(file);
  std::unique_ptr<YamlNode> root;
  if (text.size() <= kMostTopologyBytes) root = spec::ParsePlainYaml(text);
  if (root == nullptr) root = spec::ParseYaml(text, problems, kFileKind);
  Reader reader(problems);
  if (root != nullptr) reader.Read(*root);
  RETURN_IF_ERROR(problems.ToStatus());
  return reader.Take();
}

absl::StatusOr<std::string> ReadTopologyText(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  const auto fail = [&](int error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read (", std::strerror(error), ")"));
  };
  if (file == nullptr) return fail(errno);
  std::string text;
  size_t count = 0;
  do {
    const size_t size = text.size();
    text.resize(size + (size_t{1} << 20));
    errno = 0;
    count = std::fread(text.data() + size, 1, text.size() - size, file);
    text.resize(size + count);
  } while (count > 0 && text.size() <= kMostTopologyBytes);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) return fail(error);
  if (text.size() > kMostTopologyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": too large (at most 64 MiB) — ", kFileKind.when_too_large));
  }
  return text;
}

}  // namespace strata::topology
