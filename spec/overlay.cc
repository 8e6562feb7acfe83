#include "spec/overlay.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::spec {
namespace {

struct Step {
  std::string key;  // empty: a list element
  size_t index = 0;
  Position position;
};

Position InSet(size_t offset) {
  Position position;
  position.column = static_cast<int>(offset) + 1;
  position.in_set = true;
  return position;
}

constexpr size_t kMostSteps = 16;
constexpr size_t kMostIndex = 100'000;

bool IsKeyCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

// "data.train[0].path" → data, train, 0, path. Empty after a problem.
std::vector<Step> ParsePath(absl::string_view path, Problems& problems) {
  std::vector<Step> steps;
  const auto refuse = [&](size_t offset, absl::string_view what) {
    problems.Add(
        {InSet(offset), Shown(path), std::string(what), "write the path like data.train[0].path"});
    return std::vector<Step>();
  };
  size_t at = 0;
  while (at < path.size()) {
    if (steps.size() >= kMostSteps) return refuse(at, "a path with too many levels");
    if (path[at] == '[') {
      const size_t close = path.find(']', at);
      uint64_t index = 0;
      if (steps.empty() || close == absl::string_view::npos ||
          !absl::SimpleAtoi(path.substr(at + 1, close - at - 1), &index) || index > kMostIndex) {
        return refuse(at, "not an index such as [0]");
      }
      steps.push_back({"", static_cast<size_t>(index), InSet(at)});
      at = close + 1;
    } else {
      size_t end = at;
      while (end < path.size() && IsKeyCharacter(path[end])) ++end;
      if (end == at) return refuse(at, "a path is made of keys and dots");
      steps.push_back({std::string(path.substr(at, end - at)), 0, InSet(at)});
      at = end;
    }
    if (at >= path.size()) break;
    if (path[at] == '.') {
      if (++at >= path.size()) return refuse(at, "the path ends in a dot");
    } else if (path[at] != '[') {
      return refuse(at, "a path is made of keys and dots");
    }
  }
  if (steps.empty()) return refuse(0, "no path");
  return steps;
}

void Relocate(YamlNode& node, size_t shift) {
  const auto move = [shift](Position& position) {
    if (position.line == 1) position.column += static_cast<int>(shift);
    position.in_set = true;
  };
  move(node.position);
  for (YamlNode::Child& child : node.children) {
    move(child.key_position);
    Relocate(*child.node, shift);
  }
}

// Parses the value, its positions being those inside the whole setting. Null after a problem.
std::unique_ptr<YamlNode> ParseValue(absl::string_view setting, size_t begin,
                                     absl::string_view path, Problems& problems) {
  Problems own(problems.file());
  std::unique_ptr<YamlNode> value = ParseYaml(setting.substr(begin), own);
  for (Problem problem : own.Sorted()) {
    if (problem.position.line == 1) problem.position.column += static_cast<int>(begin);
    problem.position.in_set = true;
    problem.path = Shown(path);
    problems.Add(std::move(problem));
  }
  if (value == nullptr || !own.empty()) return nullptr;
  Relocate(*value, begin);
  const bool collection =
      value->kind == YamlNode::Kind::kMapping || value->kind == YamlNode::Kind::kSequence;
  if (collection && !value->flow) {
    problems.Add({InSet(begin), Shown(path), "not in YAML's flow style",
                  "write it like {key: value} or [a, b]"});
    return nullptr;
  }
  return value;
}

// The node that a step leads to, created when it is missing; null after a problem.
std::unique_ptr<YamlNode>* Descend(YamlNode& node, const Step& step, absl::string_view path,
                                   Problems& problems) {
  const auto wanted = step.key.empty() ? YamlNode::Kind::kSequence : YamlNode::Kind::kMapping;
  if (node.kind == YamlNode::Kind::kNull) node.kind = wanted;
  if (node.kind != wanted) {
    problems.Add({step.position, Shown(path),
                  step.key.empty()
                      ? "an index into what is no list in the file"
                      : absl::StrCat("the key ", step.key, " in what is no section in the file"),
                  "set the whole of it"});
    return nullptr;
  }
  if (step.key.empty()) {
    if (step.index > node.children.size()) {
      problems.Add({step.position, Shown(path),
                    absl::StrCat("index ", step.index, " in a list of ", node.children.size()),
                    absl::StrCat("use at most [", node.children.size(), "]")});
      return nullptr;
    }
    if (step.index < node.children.size()) return &node.children[step.index].node;
  } else if (YamlNode::Child* child = node.Find(step.key); child != nullptr) {
    child->key_position = step.position;
    return &child->node;
  }
  node.children.push_back({step.key, step.position, std::make_unique<YamlNode>()});
  node.children.back().node->position = step.position;
  return &node.children.back().node;
}

}  // namespace

void ApplySetting(absl::string_view setting, YamlNode& root, Problems& problems) {
  const size_t equals = setting.find('=');
  const absl::string_view path = setting.substr(0, equals);
  const std::vector<Step> steps = ParsePath(path, problems);
  if (steps.empty()) return;
  if (equals == absl::string_view::npos) {
    problems.Add({InSet(setting.size()), Shown(path), "no value", "write --set PATH=VALUE"});
    return;
  }
  std::unique_ptr<YamlNode> value = ParseValue(setting, equals + 1, path, problems);
  if (value == nullptr) return;
  if (value->kind == YamlNode::Kind::kNull) value->position = InSet(equals + 1);
  YamlNode* node = &root;
  std::unique_ptr<YamlNode>* place = nullptr;
  for (const Step& step : steps) {
    place = Descend(*node, step, path, problems);
    if (place == nullptr) return;
    node = place->get();
  }
  *place = std::move(value);
}

}  // namespace strata::spec
