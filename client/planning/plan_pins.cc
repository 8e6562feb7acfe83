#include "client/planning/plan_pins.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/planning/flag_error.h"
#include "common/status_macros.h"
#include "planner/search/saved_names.h"

namespace strata::client {
namespace {

using planner::Offload;
using planner::Recompute;
using planner::Sharding;

template <typename T>
absl::StatusOr<T> WordOf(absl::string_view key, absl::string_view value,
                         const std::vector<std::pair<const char*, T>>& words) {
  std::string known;
  for (const auto& [name, meaning] : words) {
    if (value == name) return meaning;
    absl::StrAppend(&known, known.empty() ? "" : ", ", name);
  }
  return FlagError("--pin", absl::StrCat(key, "=", value, ": one of ", known));
}

// "qkv+attention": names of kinds, or of values, whose kind is then saved; "all".
absl::Status PinSaved(absl::string_view list, planner::Pins& pins) {
  pins.recompute = Recompute::kListed;
  for (const absl::string_view name : absl::StrSplit(list, '+', absl::SkipEmpty())) {
    const auto kind = planner::KindOfValue(std::string(name));
    if (!kind.has_value() && name != "all") {
      return FlagError("--pin", absl::StrCat("recompute=save:", list, ": ", name,
                                             " is none of norms, qkv, attention, residual, "
                                             "gate_up, up, activation and all"));
    }
    pins.saved = kind.has_value() ? pins.saved.with(*kind) : planner::kAllValues;
  }
  return absl::OkStatus();
}

absl::Status SetPin(absl::string_view key, absl::string_view value, planner::Pins& pins) {
  const std::map<absl::string_view, std::optional<int64_t>*> degrees = {
      {"tensor", &pins.tensor},           {"pipeline", &pins.pipeline},
      {"virtual_stages", &pins.chunks},   {"context", &pins.context},
      {"expert", &pins.expert},           {"data", &pins.data},
      {"micro_batch", &pins.micro_batch}, {"shard_group", &pins.shard_group}};
  if (const auto degree = degrees.find(key); degree != degrees.end()) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < 1) {
      return FlagError("--pin", absl::StrCat(key, "=", value, ": a number of at least 1"));
    }
    *degree->second = number;
    return absl::OkStatus();
  }
  if (key == "shard") {
    ASSIGN_OR_RETURN(pins.sharding, WordOf<Sharding>(key, value,
                                                     {{"none", Sharding::kReplicated},
                                                      {"zero1", Sharding::kZero1},
                                                      {"zero2", Sharding::kZero2},
                                                      {"zero3", Sharding::kZero3}}));
    return absl::OkStatus();
  }
  if (absl::string_view list = value; key == "recompute" && absl::ConsumePrefix(&list, "save:")) {
    return PinSaved(list, pins);
  }
  if (key == "recompute") {
    ASSIGN_OR_RETURN(pins.recompute, WordOf<Recompute>(key, value,
                                                       {{"none", Recompute::kNone},
                                                        {"selective", Recompute::kSelective},
                                                        {"operators", Recompute::kOperators},
                                                        {"full", Recompute::kFull}}));
    return absl::OkStatus();
  }
  if (key == "offload") {
    // unified: the optimizer's state is; all_unified: and activations are on the host.
    using Home = std::pair<Offload, bool>;
    ASSIGN_OR_RETURN(
        const Home home,
        WordOf<Home>(key, value,
                     {{"none", {Offload::kNone, false}},
                      {"optimizer", {Offload::kOptimizer, false}},
                      {"activations", {Offload::kActivations, false}},
                      {"all", {Offload::kAll, false}},
                      {"gradients", {Offload::kGradients, false}},
                      {"all_gradients", {Offload::kGradients | Offload::kActivations, false}},
                      {"parameters", {Offload::kParameters, false}},
                      {"all_parameters", {Offload::kParameters | Offload::kActivations, false}},
                      {"unified", {Offload::kOptimizer, true}},
                      {"all_unified", {Offload::kAll, true}}}));
    pins.offload = home.first;
    pins.unified = home.second;
    return absl::OkStatus();
  }
  return FlagError(
      "--pin", absl::StrCat(key,
                            ": one of tensor, pipeline, virtual_stages, context, "
                            "expert, data, micro_batch, shard, shard_group, recompute, offload"));
}

}  // namespace

absl::StatusOr<planner::Pins> PinsOf(const Arguments& arguments) {
  planner::Pins pins;
  std::set<std::string> seen;
  for (const std::string& flag : arguments.All("--pin")) {
    for (const absl::string_view each : absl::StrSplit(flag, ',', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(each, absl::MaxSplits('=', 1));
      if (!seen.emplace(pair.first).second) {
        return FlagError("--pin", absl::StrCat(pair.first, " is pinned twice — keep one"));
      }
      RETURN_IF_ERROR(SetPin(pair.first, pair.second, pins));
    }
  }
  if (pins.sharding == Sharding::kReplicated && pins.shard_group.value_or(1) > 1) {
    return FlagError("--pin",
                     "shard=none shares nothing — leave shard_group out, or pin zero1, "
                     "zero2 or zero3");
  }
  return pins;
}

}  // namespace strata::client
