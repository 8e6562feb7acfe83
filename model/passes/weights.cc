#include "model/passes/weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::model {
namespace {

using program::ParameterSet;
using program::TensorSpec;

bool IsFrozen(const std::string& name, const std::vector<std::string>& frozen) {
  return std::any_of(frozen.begin(), frozen.end(),
                     [&](const std::string& pattern) { return Matches(pattern, name); });
}

// As users see the weight: its parts, or itself.
std::vector<std::string> NamesOf(const Weight& weight, const ModelLayer& layer) {
  std::vector<std::string> names;
  for (int part = 0; part < weight.tensor.part_count(); ++part) {
    names.push_back(absl::StrCat(layer.prefix, weight.tensor.logical_name(part)));
  }
  return names;
}

std::string SetName(const Weight& weight, const ModelLayer& layer) {
  const bool behind = weight.set.empty() || weight.set[0] == '.';
  return behind ? layer.name + weight.set : weight.set;
}

bool IsMixed(const Graph& graph, const std::string& set) {
  bool trains = false, freezes = false;
  for (const Weight& weight : graph.weights) {
    if (weight.set == set) (weight.trainable ? trains : freezes) = true;
  }
  return trains && freezes;
}

// This rank's part of the weight.
TensorSpec CutOf(const Weight& weight, const ModelLayer& layer, int64_t degree) {
  TensorSpec tensor = weight.tensor;
  tensor.name = layer.prefix + tensor.name;
  for (TensorSpec::Part& part : tensor.parts) part.name = layer.prefix + part.name;
  if (degree == 1 || weight.cut < 0) return tensor;
  int64_t& extent = tensor.shape[weight.cut];
  const int64_t share = program::ShareOf(extent, degree);
  tensor.cut = {program::Group::kTensor, weight.cut, degree, share * degree - extent};
  STRATA_CHECK(tensor.cut.padding == 0 || (weight.cut == 0 && tensor.parts.empty()));
  extent = share;
  for (TensorSpec::Part& part : tensor.parts) part.rows /= weight.cut == 0 ? degree : 1;
  return tensor;
}

// Behind the name of the weight's set: what is kept in another way than the rest of it.
const char* Apart(const Graph& graph, const Weight& weight) {
  if (weight.quantised) return "quantised";
  return !weight.trainable && IsMixed(graph, weight.set) ? "frozen" : "";
}

// The formal's name in templates, which serve many layers.
std::string Label(const Weight& weight, absl::string_view apart) {
  std::string label = weight.set.empty() ? "weights" : weight.set;
  if (label[0] == '.') label.erase(0, 1);
  return apart.empty() ? label : absl::StrCat(label, " ", apart);
}

// The logical tensors of a fused one, each by itself: quantised, they begin with a unit.
std::vector<TensorSpec> Unfused(const TensorSpec& tensor) {
  if (tensor.parts.empty()) return {tensor};
  std::vector<TensorSpec> all;
  for (const TensorSpec::Part& part : tensor.parts) {
    TensorSpec& single = all.emplace_back(tensor);
    single.name = part.name;
    single.shape[0] = part.rows;
    single.parts.clear();
  }
  return all;
}

// The scales of a matrix's rows: whole where it is cut by columns.
TensorSpec RowScalesOf(Weight weight, const ModelLayer& layer, int64_t degree) {
  absl::StrAppend(&weight.tensor.name, program::kRowScales);
  for (TensorSpec::Part& part : weight.tensor.parts)
    absl::StrAppend(&part.name, program::kRowScales);
  weight.tensor.shape = {weight.rows(), sizeof(float)};
  if (weight.cut == 1) weight.cut = -1;
  return CutOf(weight, layer, degree);
}

// What this rank keeps of the weight.
std::vector<TensorSpec> TensorsOf(const Weight& weight, const ModelLayer& layer, int64_t degree) {
  const TensorSpec tensor = CutOf(weight, layer, degree);
  if (!weight.quantised) return {tensor};
  if (program::IsNf4(*weight.quantised)) return Unfused(tensor);
  return {tensor, RowScalesOf(weight, layer, degree)};
}

// Of its set.
int64_t AlignmentOf(const Weight& weight, int64_t least) {
  if (!weight.quantised) return least;
  // Units, or whole lines of codes: then no range ends inside a scale.
  return std::max(program::IsNf4(*weight.quantised) ? program::kNf4Unit : int64_t{64}, least);
}

// Sets while weights are put into them: where each weight's tensors stand.
struct Placed {
  size_t set = 0, first = 0, count = 0;
};

WeightPlace PlaceOf(const ParameterSet& set, const Placed& at, std::string label) {
  const TensorSpec& first = set.tensors[at.first];
  WeightPlace place{.set = static_cast<int>(at.set),
                    .set_name = std::move(label),
                    .type = set.type,
                    .set_bytes = set.bytes(),
                    .gradient_bytes = set.gradient_bytes(),
                    .offset = first.offset,
                    .elements = first.elements()};
  if (set.type == program::DType::kInt8) {
    place.quantised = {
        {first.offset, first.elements(), set.tensors[at.first + 1].offset, first.shape[0]}};
  }
  for (size_t t = at.first; program::IsNf4(set.type) && t < at.first + at.count; ++t) {
    place.quantised.push_back({set.tensors[t].offset, set.tensors[t].elements()});
  }
  return place;
}

}  // namespace

bool Matches(const std::string& pattern, const std::string& name) {
  size_t p = 0, n = 0, star = std::string::npos, retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

absl::Status Freeze(Graph& graph, const ModelLayer& layer, const std::vector<std::string>& frozen) {
  for (Weight& weight : graph.weights) {
    const std::vector<std::string> names = NamesOf(weight, layer);
    const auto count = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return IsFrozen(name, frozen);
    });
    if (count > 0 && count < static_cast<int64_t>(names.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "frozen: some parts of ", layer.prefix, weight.tensor.name, " only; all or none of ",
          names.front(), " … ", names.back(), " can be frozen"));
    }
    weight.trainable = count == 0;
  }
  return absl::OkStatus();
}

absl::Status CheckFrozen(const ModelGraph& model, const std::vector<std::string>& frozen) {
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers) {
    for (const Weight& weight : model.graphs[layer.graph].weights) {
      for (std::string& name : NamesOf(weight, layer)) names.push_back(std::move(name));
    }
  }
  for (const std::string& pattern : frozen) {
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return Matches(pattern, name); })) {
      return absl::InvalidArgumentError(absl::StrCat("frozen: no tensor is named ", pattern));
    }
  }
  if (std::all_of(names.begin(), names.end(),
                  [&](const std::string& name) { return IsFrozen(name, frozen); })) {
    return absl::InvalidArgumentError("frozen: no tensor is left to train");
  }
  return absl::OkStatus();
}

std::vector<ParameterSet> SetsOf(const Graph& graph, const ModelLayer& layer,
                                 const EmitOptions& options, std::vector<WeightPlace>* places) {
  std::vector<ParameterSet> sets;
  std::vector<Placed> at;
  for (const Weight& weight : graph.weights) {
    const std::string apart = Apart(graph, weight);
    const std::string name = SetName(weight, layer) + (apart.empty() ? "" : "." + apart);
    const auto is_named = [&](const ParameterSet& set) { return set.name == name; };
    auto set = std::find_if(sets.begin(), sets.end(), is_named);
    if (set == sets.end()) {
      set = sets.insert(sets.end(), ParameterSet{});
      set->name = name;
      set->trainable = weight.trainable;
      set->type = weight.quantised.value_or(graph.type);
      set->alignment = AlignmentOf(weight, options.set_alignment);
    }
    const std::vector<TensorSpec> tensors = TensorsOf(weight, layer, graph.degree);
    at.push_back({static_cast<size_t>(set - sets.begin()), set->tensors.size(), tensors.size()});
    set->tensors.insert(set->tensors.end(), tensors.begin(), tensors.end());
  }
  for (ParameterSet& set : sets) program::FlattenSet(set, options.set_ranges);
  if (places == nullptr) return sets;
  places->clear();
  for (size_t i = 0; i < at.size(); ++i) {
    const Weight& weight = graph.weights[i];
    places->push_back(PlaceOf(sets[at[i].set], at[i], Label(weight, Apart(graph, weight))));
  }
  return sets;
}

}  // namespace strata::model
