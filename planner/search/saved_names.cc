#include "planner/search/saved_names.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "model/saved_values.h"

namespace strata::planner {
namespace {

bool Has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

std::optional<SavedValue> KindOfValue(const std::string& name) {
  static const auto& kinds = *new std::map<std::string, SavedValue>{
      {"norms", SavedValue::kNorms},
      {"norm1", SavedValue::kNorms},
      {"rstd1", SavedValue::kNorms},
      {"norm2", SavedValue::kNorms},
      {"rstd2", SavedValue::kNorms},
      {"projected", SavedValue::kQkv},  // before the norms of heads
      {"heads_rstd", SavedValue::kQkv},
      {"qkv", SavedValue::kQkv},
      {"attention", SavedValue::kAttention},
      {"log_sum_exp", SavedValue::kAttention},
      {"attended", SavedValue::kResidual},  // before a norm behind attention
      {"attended_rstd", SavedValue::kResidual},
      {"residual", SavedValue::kResidual},
      {"up", SavedValue::kUp},
      {"gate_up", SavedValue::kUp},
      {"activation", SavedValue::kActivation}};
  const auto found = kinds.find(name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

SavedNames::SavedNames(model::Family family) {
  for (const model::SavedValue& value : model::SavableValuesOf(family)) {
    const std::optional<SavedValue> kind = KindOfValue(value.name);
    const bool elementwise = kind == SavedValue::kNorms || kind == SavedValue::kActivation;
    if (elementwise || value.saved_by_default) names_.push_back({value.name, kind});
  }
}

std::vector<std::string> SavedNames::ListOf(SavedValues values) const {
  if (values == kAllValues) return {model::kAllValues};
  std::vector<std::string> list;
  for (const auto& [name, kind] : names_) {
    if (kind.has_value() ? values.has(*kind) : values != kNoValues) list.push_back(name);
  }
  return list;
}

SavedValues SavedNames::ValuesOf(const std::vector<std::string>& list) const {
  SavedValues values = kAllValues;
  if (Has(list, model::kAllValues)) return values;
  for (const auto& [name, kind] : names_) {
    if (kind.has_value() && !Has(list, name)) values = values.without(*kind);
  }
  return values;
}

v1::RecomputeSpec RecomputeOf(const LayoutChoice& layout, const SavedNames& names) {
  v1::RecomputeSpec spec;
  switch (layout.recompute) {
    case Recompute::kNone:
      spec.set_mode(v1::RecomputeSpec::MODE_NONE);
      break;
    case Recompute::kSelective:
    case Recompute::kOperators:
      spec.set_mode(v1::RecomputeSpec::MODE_SELECTIVE);
      break;
    case Recompute::kFull:
      spec.set_mode(v1::RecomputeSpec::MODE_FULL);
      break;
    case Recompute::kListed:
      for (const std::string& name : names.ListOf(layout.saved)) spec.add_save(name);
      if (layout.listed_layers > 0) {
        spec.mutable_layers()->set_first(0);
        spec.mutable_layers()->set_last(layout.listed_layers - 1);
      }
  }
  return spec;
}

void SetRecompute(const v1::RecomputeSpec& spec, const SavedNames& names, int64_t layers,
                  LayoutChoice& layout) {
  if (spec.has_mode()) {
    layout.recompute = spec.mode() == v1::RecomputeSpec::MODE_SELECTIVE ? Recompute::kSelective
                       : spec.mode() == v1::RecomputeSpec::MODE_FULL    ? Recompute::kFull
                                                                        : Recompute::kNone;
    return;
  }
  const SavedValues saved = names.ValuesOf({spec.save().begin(), spec.save().end()});
  const int64_t listed =
      spec.has_layers() ? spec.layers().last() - spec.layers().first() + 1 : layers;
  const bool everywhere = listed < 1 || listed >= layers || saved == kUsualValues;
  layout.recompute = everywhere ? ModeOf(saved) : Recompute::kListed;
  if (layout.recompute == Recompute::kListed) layout.saved = saved;
  if (!everywhere) layout.listed_layers = listed;
}

std::string RecomputeText(const v1::RecomputeSpec& spec) {
  if (spec.has_mode()) {
    const std::string name = v1::RecomputeSpec::Mode_Name(spec.mode());
    return absl::AsciiStrToLower(absl::StripPrefix(name, "MODE_"));
  }
  std::string text = absl::StrCat("{save: [", absl::StrJoin(spec.save(), ", "), "]");
  if (spec.has_layers()) {
    absl::StrAppend(&text, ", layers: ", spec.layers().first(), "-", spec.layers().last());
  }
  return text + "}";
}

}  // namespace strata::planner
