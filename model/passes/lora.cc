#include "model/passes/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/adapter_names.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::TensorSpec;

std::vector<TensorSpec::Part> PartsOf(const Weight& weight) {
  if (!weight.tensor.parts.empty()) return weight.tensor.parts;
  return {{weight.tensor.name, weight.rows()}};
}

// The adapters beside one weight.
struct Adapters {
  std::vector<std::string> modules;     // behind the layer's prefix; groups of A's rows
  std::vector<TensorSpec::Part> b;      // rows of B
  std::vector<AdaptedColumns> adapted;  // what they add to
};

// `column`: of the weight's first row. `heads` > 0: the weight's parts have so many heads, of which
// a rank of `degree` uses one.
Adapters AdaptersOf(const Weight& weight, const ModelLayer& layer, const LoraOptions& lora,
                    int64_t column, int64_t heads, int64_t degree) {
  Adapters found;
  bool joined = false;  // the last part's columns end where the next ones begin
  for (const TensorSpec::Part& part : PartsOf(weight)) {
    const AdapterNames names = AdapterBeside(part.name);
    const std::string& module = names.module;
    const int64_t columns = heads > 0 ? part.rows / heads * degree : part.rows;
    if (IsTarget(layer.prefix + module, lora.targets)) {
      const bool same = !found.modules.empty() && found.modules.back() == module;
      if (!same) found.modules.push_back(module);
      found.b.push_back({names.b, part.rows});
      if (same && joined && heads == 0) {
        found.adapted.back().rows += part.rows;
      } else {
        const int64_t first = (static_cast<int64_t>(found.modules.size()) - 1) * lora.rank;
        found.adapted.push_back({part.rows, column, first});
      }
      joined = true;
    } else {
      joined = false;
    }
    column += columns;
  }
  return found;
}

Weight AdapterWeight(std::vector<TensorSpec::Part> parts, const std::string& name, int64_t columns,
                     int cut, Initializer initializer) {
  Weight weight;
  weight.tensor.shape = {0, columns};
  for (const TensorSpec::Part& part : parts) weight.tensor.shape[0] += part.rows;
  weight.tensor.name = parts.size() == 1 ? parts[0].name : name;
  if (parts.size() > 1) weight.tensor.parts = std::move(parts);
  weight.tensor.initializer = initializer;
  weight.tensor.decay = true;
  weight.cut = cut;
  weight.set = cut < 0 ? ".whole_adapters" : ".adapters";
  return weight;
}

class AdapterPass {
 public:
  AdapterPass(const Graph& graph, const ModelLayer& layer, const LoraOptions& lora)
      : from_(graph), layer_(layer), lora_(lora), to_(graph.name, graph.degree, graph.type) {}

  Graph Run() && {
    to_.weights = from_.weights;
    for (Weight& weight : to_.weights) weight.trainable = false;
    for (const Node& node : from_.nodes) {
      if (node.kind != NodeKind::kLinear || layer_.block < 0 || !lora_.quantised) continue;
      to_.weights[node.weight].quantised = lora_.quantised;
      if (node.second >= 0) to_.weights[node.second].quantised = lora_.quantised;
    }
    for (const Node& node : from_.nodes) {
      if (node.kind != NodeKind::kRedistribute) Append(node);
    }
    if (from_.input >= 0) to_.input = Taken(from_.input);
    if (from_.output >= 0) to_.output = Taken(from_.output);
    if (from_.logits >= 0) to_.logits = Taken(from_.logits);
    return std::move(to_);
  }

 private:
  // Adapters of a linear node's weight, with A · x and h, which is alpha / rank times that.
  struct Branch {
    Adapters adapters;
    ValueId reduced = -1, h = -1;
    int64_t heads = 0;
    const Weight* beside = nullptr;
  };

  // The value in the new graph, in the layout that it has in the old one.
  ValueId Taken(ValueId value) {
    const ValueId source = from_.Source(value);
    const auto [found, added] = taken_.try_emplace(source, -1);
    if (added) found->second = Made(source, from_.values[source].name);
    return to_.As(found->second, from_.values[value].layout);
  }
  ValueId Made(ValueId value, std::string name) {
    const Value& old = from_.values[value];
    const ValueId made = to_.Make(std::move(name), old.width, old.layout);
    to_.values[made].type = old.type;
    to_.values[made].streamed = old.streamed;
    to_.values[made].given = old.given;
    return made;
  }

  void Append(Node node) {
    std::vector<Branch> branches;
    if (node.kind == NodeKind::kLinear && layer_.block >= 0) branches = BranchesOf(node);
    for (ValueId& in : node.in) in = Taken(in);
    const std::vector<ValueId> outs = node.out;
    for (ValueId& out : node.out) {
      const std::string& name = from_.values[out].name;
      const ValueId made = Made(out, branches.empty() ? name : name + "_base");
      taken_[out] = made;
      out = made;
    }
    to_.Add(std::move(node));
    for (size_t i = 0; i < branches.size(); ++i) Return(branches, i, outs[0]);
  }

  std::vector<Branch> BranchesOf(const Node& node) {
    std::vector<Branch> branches;
    const Weight& weight = from_.weights[node.weight];
    Branch own{AdaptersOf(weight, layer_, lora_, 0, 0, from_.degree), -1, -1, 0, &weight};
    if (!own.adapters.modules.empty()) branches.push_back(std::move(own));
    if (node.second >= 0) {
      const Weight& shared = from_.weights[node.second];
      const int64_t heads = node.attributes.kv_heads;
      Branch behind{AdaptersOf(shared, layer_, lora_, weight.rows(), heads, from_.degree), -1, -1,
                    heads, &shared};
      if (!behind.adapters.modules.empty()) branches.push_back(std::move(behind));
    }
    for (size_t i = 0; i < branches.size(); ++i) {
      Branch& branch = branches[i];
      const std::string number = i == 0 ? "" : absl::StrCat(i + 1);
      const std::string name = from_.values[node.out[0]].name + "_adapter" + number;
      // A packed module has one A, whatever weights its parts are in.
      const bool same = i > 0 && branch.adapters.modules == branches[0].adapters.modules;
      branch.reduced =
          same ? branches[0].reduced : Reduce(branch, from_.Source(node.in[0]), name + "_unscaled");
      branch.h = Scale(to_, branch.reduced, lora_.alpha / static_cast<double>(lora_.rank), name);
    }
    return branches;
  }

  // A · x.
  ValueId Reduce(const Branch& branch, ValueId x, const std::string& name) {
    const Weight& beside = *branch.beside;
    std::vector<TensorSpec::Part> parts;
    for (const std::string& module : branch.adapters.modules) {
      parts.push_back({module + ".lora_A.weight", lora_.rank});
    }
    const Initializer uniform{Initializer::Kind::kUniform,
                              1 / std::sqrt(static_cast<double>(beside.columns()))};
    const WeightId a = to_.Use(AdapterWeight(std::move(parts), beside.tensor.name + ".lora_A",
                                             beside.columns(), beside.cut == 1 ? 1 : -1, uniform));
    return to_.As(Linear(to_, Taken(x), a, name), Layout::kRows);
  }

  // Adds B · h to what stands for `y`; the last one has its name.
  void Return(std::vector<Branch>& branches, size_t index, ValueId y) {
    Branch& branch = branches[index];
    const WeightId b = to_.Use(AdapterWeight(
        std::move(branch.adapters.b), branch.beside->tensor.name + ".lora_B", lora_.rank,
        branch.beside->cut == 0 ? 0 : -1, Initializer{Initializer::Kind::kConstant, 0}));
    const bool last = index + 1 == branches.size();
    taken_[y] = Adapt(to_, branch.h, taken_[y], b, std::move(branch.adapters.adapted), branch.heads,
                      from_.values[y].name + (last ? "" : "_adapted"));
    to_.values[taken_[y]].streamed = from_.values[y].streamed;
  }

  const Graph& from_;
  const ModelLayer& layer_;
  const LoraOptions& lora_;
  Graph to_;
  std::map<ValueId, ValueId> taken_;  // by the old graph's value, behind Redistribute nodes
};

template <typename Visit>
void ForModules(const ModelGraph& model, const Visit& visit) {
  for (const ModelLayer& layer : model.layers) {
    if (layer.block < 0) continue;
    const Graph& graph = model.graphs[layer.graph];
    for (const Node& node : graph.nodes) {
      if (node.kind != NodeKind::kLinear) continue;
      for (const WeightId id : {node.weight, node.second}) {
        if (id < 0) continue;
        for (const TensorSpec::Part& part : PartsOf(graph.weights[id])) {
          visit(layer.prefix + AdapterBeside(part.name).module);
        }
      }
    }
  }
}

}  // namespace

bool IsTarget(const std::string& module, const std::vector<std::string>& targets) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return target == "all-linear" || module == target ||
           absl::EndsWith(module, absl::StrCat(".", target));
  });
}

std::vector<std::string> TargetNames(const ModelGraph& model) {
  std::vector<std::string> names;
  ForModules(model, [&](const std::string& module) {
    std::string name = module.substr(module.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  });
  return names;
}

absl::Status CheckLora(const ModelGraph& model, const LoraOptions& lora) {
  if (lora.rank < 1) return absl::InvalidArgumentError("train.lora.rank: must be positive");
  if (lora.targets.empty()) return absl::InvalidArgumentError("train.lora.targets: names nothing");
  for (const std::string& target : lora.targets) {
    bool found = false;
    ForModules(model, [&](const std::string& module) { found |= IsTarget(module, {target}); });
    if (found) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("train.lora.targets: no linear layer of a block is called ", target,
                     " — use all-linear, or some of ", absl::StrJoin(TargetNames(model), ", ")));
  }
  return absl::OkStatus();
}

Graph AddAdapters(const Graph& graph, const ModelLayer& layer, const LoraOptions& lora) {
  return AdapterPass(graph, layer, lora).Run();
}

}  // namespace strata::model
