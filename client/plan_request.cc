#include "client/plan_request.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/commands/map_file.h"
#include "client/model_named.h"
#include "common/status_macros.h"
#include "planner/performance/catalog.h"
#include "planner/search/job_choice.h"
#include "planner/search/network_of_cluster.h"

namespace strata::client {
namespace {

using planner::Offload;
using planner::Precision;
using planner::Recompute;
using planner::SearchRequest;
using planner::Sharding;

// What is left to a step of a device's memory beside the driver and fragments.
constexpr double kUsable = 0.95;
constexpr int64_t kUsualSequence = 4096;
// More than anything has; products of two are still exact.
constexpr double kMostDevices = 1 << 24, kMostSequences = 1e9, kMostTokens = 1e9;
constexpr double kMostRunTokens = 1e18, kMostPrice = 1e9;

absl::Status FlagError(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", what, "\n"));
}

absl::StatusOr<Precision> PrecisionNamed(const std::string& text) {
  for (const Precision precision : {Precision::kFp32, Precision::kHalf, Precision::kFp8,
                                    Precision::kMxfp8, Precision::kNvfp4}) {
    if (text == planner::NameOf(precision)) return precision;
  }
  if (text == "f32") return Precision::kFp32;
  if (text == "f16") return Precision::kHalf;
  return FlagError("--precision",
                   absl::StrCat(text, " is none of bf16, f16, f32, fp8, mxfp8 and nvfp4"));
}

// ---- Pins.

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
    ASSIGN_OR_RETURN(const Home home, WordOf<Home>(key, value,
                                                   {{"none", {Offload::kNone, false}},
                                                    {"optimizer", {Offload::kOptimizer, false}},
                                                    {"activations", {Offload::kActivations, false}},
                                                    {"all", {Offload::kAll, false}},
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

// ---- Variations.

// A key and one of its values.
using Setting = std::pair<std::string, double>;

absl::StatusOr<std::vector<std::vector<Setting>>> Variations(const Arguments& arguments) {
  constexpr size_t kMost = 1000;
  std::vector<std::vector<Setting>> all = {{}};
  for (const std::string& flag : arguments.All("--vary")) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(flag, absl::MaxSplits('=', 1));
    const auto& keys = all.front();
    if (std::any_of(keys.begin(), keys.end(),
                    [&](const Setting& s) { return s.first == pair.first; })) {
      return FlagError("--vary", absl::StrCat(pair.first,
                                              " is varied twice — give all its values at "
                                              "once: KEY=V1,V2,…"));
    }
    std::vector<std::vector<Setting>> next;
    for (const absl::string_view text : absl::StrSplit(pair.second, ',')) {
      double value = 0;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value <= 0) {
        return FlagError(
            "--vary", absl::StrCat(flag, ": \"", text, "\" is no positive number — KEY=V1,V2,…"));
      }
      for (std::vector<Setting> settings : all) {
        settings.emplace_back(pair.first, value);
        next.push_back(std::move(settings));
      }
    }
    all = std::move(next);
    if (all.size() > kMost) return FlagError("--vary", "more than 1000 networks");
  }
  return all;
}

// Whose steps are predicted: a name of the catalog's software.
absl::StatusOr<std::string> FrameworkOf(const Arguments& arguments) {
  const std::string named = arguments.Text("--framework", planner::kOwnFramework);
  std::string known;
  for (const auto& software : planner::Catalog::Shipped().profiles().software()) {
    if (software.name() == named) return named;
    absl::StrAppend(&known, known.empty() ? "" : ", ", software.name());
  }
  return FlagError("--framework", absl::StrCat(named, ": one of ", known));
}

// A link's rate as a described cluster has it, with what is varied.
absl::Status SetLink(absl::string_view key, double value, topology::Description& description) {
  const std::vector<std::string> parts = absl::StrSplit(key, '.');
  if (parts.size() != 3 || parts[0] != "links") {
    return FlagError("--vary", absl::StrCat(key,
                                            ": one of domain, devices, global_batch, "
                                            "links.LEVEL.oversubscription, "
                                            "links.LEVEL.bytes_per_second"));
  }
  const auto link = description.links.find(parts[1]);
  if (link == description.links.end()) {
    return FlagError("--vary", absl::StrCat(key, ": the topology describes no link of ", parts[1],
                                            " (it comes with --topology)"));
  }
  if (parts[2] == "bytes_per_second") {
    link->second.bytes_per_second = value;
  } else if (parts[2] == "oversubscription") {
    link->second.bytes_per_second *= link->second.oversubscription / value;
    link->second.oversubscription = value;
  } else {
    return FlagError("--vary", absl::StrCat(key, ": oversubscription or bytes_per_second"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view key, double value) {
  const double most = key == "global_batch" ? kMostSequences : kMostDevices;
  if (value == std::floor(value) && value <= most) return absl::OkStatus();
  return FlagError("--vary", absl::StrCat(key, "=", value, ": a whole number of at most ",
                                          static_cast<int64_t>(most)));
}

// The cluster's own name for a kind: nodes that say a100 have --device a100-40.
std::string KindIn(const topology::Cluster& cluster, const std::string& asked) {
  const auto& nodes = cluster.nodes();
  const auto is = [&](const topology::Node& node) { return node.kind == asked; };
  if (asked.empty() || std::any_of(nodes.begin(), nodes.end(), is)) return asked;
  for (const topology::Node& node : nodes) {
    if (planner::Catalog::Shipped().MayBe(node.kind, asked)) return node.kind;
  }
  return asked;
}

// What all questions share, and what one changes.
struct Basis {
  planner::MachineRequest machine;
  std::optional<topology::Description> cluster;
  std::string kind;
  SearchRequest request;  // without the machine
  int64_t devices = 0;    // 0: all of the cluster
};

absl::StatusOr<PlanQuestion> QuestionOf(const Basis& basis, const std::vector<Setting>& settings,
                                        LoadedPlan& loaded) {
  PlanQuestion question{.request = basis.request};
  std::optional<topology::Description> cluster = basis.cluster;
  int64_t devices = basis.devices, domain = 0;
  for (const auto& [key, value] : settings) {
    absl::StrAppend(&question.settings, question.settings.empty() ? "" : " ", key, "=", value);
    if (key == "domain" || key == "devices" || key == "global_batch") {
      RETURN_IF_ERROR(CheckCount(key, value));
      (key == "domain"    ? domain
       : key == "devices" ? devices
                          : question.request.global_batch) = static_cast<int64_t>(value);
    } else if (cluster.has_value()) {
      RETURN_IF_ERROR(SetLink(key, value, *cluster));
    } else {
      topology::Description none;
      RETURN_IF_ERROR(SetLink(key, value, none));
    }
  }
  planner::MachineRequest wanted = basis.machine;
  std::optional<planner::ClusterPart> part;
  if (cluster.has_value()) {
    auto made = topology::Cluster::Make(*std::move(cluster));
    if (!made.ok()) return FlagError("--vary", made.status().message());
    const std::string named = KindIn(*made, basis.kind);
    auto found = planner::PartOf(*made, named, devices, {});
    if (!found.ok()) return FlagError("--topology", found.status().message());
    part = *std::move(found);
    wanted.gpu = named == basis.kind ? part->kind : basis.kind;
    devices = part->devices;
    question.kind = part->kind;
    question.cluster = std::make_shared<const topology::Cluster>(*std::move(made));
  }
  if (devices == 0) return FlagError("--devices", "say how many, or give --topology FILE");
  auto found = planner::Catalog::Shipped().Find(wanted);
  if (!found.ok()) return FlagError("--device", found.status().message());
  planner::Machine& machine = found->machine;
  if (basis.request.pins.recompute == Recompute::kListed && !machine.software.saves_by_value) {
    return FlagError("--pin",
                     "recompute=save:… is of Strata's own steps — leave out --framework, or "
                     "pin none, selective, operators or full");
  }
  if (part.has_value()) {
    // The host's and the disks' rates are the device's.
    part->network.host_rate = machine.network.host_rate;
    part->network.page_rate = machine.network.page_rate;
    part->network.coherent = machine.network.coherent;
    part->network.host_memory_bytes = machine.network.host_memory_bytes;
    part->network.host_memory_rate = machine.network.host_memory_rate;
    part->network.host_is_device = machine.network.host_is_device;
    part->network.disk_rate = machine.network.disk_rate;
    machine.network = part->network;
    loaded.network = absl::StrCat("links up to ", part->widest);
  }
  if (domain > 0) {
    machine.network.domain_devices = domain;
    machine.network.node_devices = std::min(machine.network.node_devices, domain);
  }
  loaded.gpu = machine.gpu.name;
  loaded.software = found->software;
  loaded.calibration = found->calibration;
  if (loaded.price_per_device_hour == 0) loaded.price_per_device_hour = machine.gpu.price_per_hour;
  question.request.devices = devices;
  question.request.memory_bytes = kUsable * machine.gpu.memory_bytes;
  question.request.machine = std::move(machine);
  return question;
}

}  // namespace

absl::StatusOr<LoadedPlan> LoadPlan(const Arguments& arguments) {
  Basis basis;
  v1::ModelSpec sizes;
  ASSIGN_OR_RETURN(const planner::FitModel model, ModelNamed(arguments.Text("--model"), sizes));
  const int64_t context = model.spec.context > 0 ? model.spec.context : kUsualSequence;
  const int64_t sequence = arguments.Count("--seq").value_or(std::min(context, kUsualSequence));
  const auto shape = planner::ShapeOf(model, sequence);
  if (!shape.has_value()) {
    return FlagError("--model", absl::StrCat(model.name,
                                             " is not a decoder: strata fit knows its memory; "
                                             "layouts are planned for decoders"));
  }
  basis.request.shape = *shape;
  ASSIGN_OR_RETURN(basis.request.precision, PrecisionNamed(arguments.Text("--precision", "bf16")));
  ASSIGN_OR_RETURN(basis.request.pins, PinsOf(arguments));
  if (!arguments.Has("--global-batch"))
    return FlagError("--global-batch", "say how many sequences");
  basis.request.global_batch = *arguments.Count("--global-batch");
  basis.request.most = static_cast<int>(arguments.Count("--top").value_or(5));
  basis.request.tiers = !arguments.Has("--no-offload");
  if (!basis.request.tiers &&
      basis.request.pins.offload.value_or(Offload::kNone) != Offload::kNone) {
    return FlagError("--no-offload", "--pin offload says that something leaves the devices");
  }
  basis.machine.precision = basis.request.precision;
  ASSIGN_OR_RETURN(basis.machine.framework, FrameworkOf(arguments));
  basis.devices = arguments.Count("--devices").value_or(0);
  if (arguments.Has("--topology")) {
    ASSIGN_OR_RETURN(const topology::Cluster cluster,
                     ReadMapFile(arguments.Text("--topology"), Arguments()));
    basis.cluster = cluster.ToDescription();
    basis.kind = arguments.Text("--device");
  } else {
    basis.machine.gpu = arguments.Text("--device", "h100");
  }
  LoadedPlan loaded{.model = model.name,
                    .sizes = model.spec,
                    .saved_names = planner::SavedNames(model.spec.family)};
  if (model.spec.context > 0 && sequence > model.spec.context) {
    loaded.notice = absl::StrCat("--seq ", sequence, " is longer than the model's ",
                                 model.spec.context, " positions: a job of it would be refused");
  }
  loaded.price_per_device_hour = arguments.Number("--price").value_or(0);
  loaded.run_tokens = arguments.Number("--tokens").value_or(0);
  ASSIGN_OR_RETURN(const auto variations, Variations(arguments));
  for (const std::vector<Setting>& settings : variations) {
    ASSIGN_OR_RETURN(PlanQuestion question, QuestionOf(basis, settings, loaded));
    loaded.questions.push_back(std::move(question));
  }
  return loaded;
}

std::vector<Flag> PlanFlags() {
  using Kind = Flag::Kind;
  Flag model = {"--model", Kind::kText, "NAME|DIR", "a published model, or Hugging Face files"};
  Flag batch = {"--global-batch", Kind::kCount, "N", "sequences of a step"};
  batch.least = 1;
  batch.most = kMostSequences;
  Flag devices = {"--devices", Kind::kCount, "N", "how many; of a topology, all"};
  devices.least = 1;
  devices.most = kMostDevices;
  Flag sequence = {"--seq", Kind::kCount, "N", "tokens of a sequence (the model's, at most 4096)"};
  sequence.least = 1;
  sequence.most = kMostTokens;
  Flag top = {"--top", Kind::kCount, "N", "how many plans are shown (5)"};
  top.least = 1;
  top.most = 1000;
  Flag pin = {"--pin", Kind::kText, "KEY=VALUE,…",
              "what is decided: tensor, pipeline, virtual_stages, context, expert, data, "
              "micro_batch, shard, shard_group, recompute, offload"};
  pin.repeated = true;
  Flag vary = {"--vary", Kind::kText, "KEY=V1,V2,…",
               "the best layout for each: domain, devices, global_batch, "
               "links.LEVEL.oversubscription, links.LEVEL.bytes_per_second"};
  vary.repeated = true;
  Flag set = {"--set", Kind::kText, "PATH=VALUE", "change a key of the job file; may be repeated"};
  set.repeated = true;
  Flag price = {"--price", Kind::kNumber, "MONEY", "of one device and hour"};
  price.least = 0;
  price.most = kMostPrice;
  Flag tokens = {"--tokens", Kind::kNumber, "N", "of the whole run, such as 15e12"};
  tokens.least = 1;
  tokens.most = kMostRunTokens;
  return {
      model,
      batch,
      devices,
      {"--device", Kind::kText, "KIND", "h100 (the default), a100-80, b200, …"},
      {"--topology", Kind::kText, "FILE", "the cluster, as strata topology --from reads it"},
      sequence,
      {"--precision", Kind::kText, "TYPE",
       "of products: bf16 (default), f16, f32, fp8, mxfp8, nvfp4"},
      pin,
      vary,
      top,
      {"--framework", Kind::kText, "NAME", "whose steps: strata (default), nemo, torchtitan, …"},
      {"--replay", Kind::kSwitch, "", "walk the plans' programs too, however long it takes"},
      {"--no-offload", Kind::kSwitch, "", "everything stays on the devices"},
      price,
      tokens,
      {"--profile", Kind::kText, "F", "of this machine, for a job file (strata calibrate)"},
      set};
}

}  // namespace strata::client
