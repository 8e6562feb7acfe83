#include "client/planning/plan_request.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands/map_file.h"
#include "client/planning/flag_error.h"
#include "client/planning/model_named.h"
#include "client/planning/plan_pins.h"
#include "client/planning/prices.h"
#include "common/status_macros.h"
#include "planner/fit/devices.h"
#include "planner/performance/catalog.h"
#include "planner/search/job_choice.h"
#include "planner/search/network_of_cluster.h"
#include "spec/scalars.h"

namespace strata::client {
namespace {

using planner::Offload;
using planner::Precision;
using planner::SearchRequest;

// What is left to a step of a device's memory beside the driver and fragments.
constexpr double kUsable = 0.95;
constexpr int64_t kUsualSequence = 4096;
// More than anything has; products of two are still exact.
constexpr double kMostDevices = 1 << 24, kMostSequences = 1e9, kMostTokens = 1e9;
constexpr double kMostRunTokens = 1e18;
constexpr int64_t kFirstWithBf16 = 8;  // generation: Ampere

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

// Of --host-memory; 0: it is not said.
absl::StatusOr<double> HostBytesOf(const Arguments& arguments) {
  if (!arguments.Has("--host-memory")) return 0;
  const absl::StatusOr<int64_t> bytes = spec::ParseSize(arguments.Text("--host-memory"));
  if (!bytes.ok()) return FlagError("--host-memory", bytes.status().message());
  if (*bytes < 1) {
    return FlagError("--host-memory", absl::StrCat(*bytes,
                                                   " bytes: give a size such as 64GiB, or "
                                                   "keep all on the device: --no-offload"));
  }
  return static_cast<double>(*bytes);
}

// ---- Variations.

// A key and one of its values: a number, but of `device`.
struct Setting {
  std::string key, text;
  double value = 0;
};

absl::StatusOr<Setting> SettingOf(const std::string& key, absl::string_view text) {
  Setting setting{.key = key, .text = std::string(text)};
  if (key == "device") {
    if (!text.empty()) return setting;
    return FlagError("--vary", "device= names no kind — device=h100,a100-80");
  }
  if (absl::SimpleAtod(text, &setting.value) && std::isfinite(setting.value) && setting.value > 0) {
    return setting;
  }
  return FlagError("--vary", absl::StrCat(key, "=", text, ": no positive number — KEY=V1,V2,…"));
}

absl::StatusOr<std::vector<std::vector<Setting>>> Variations(const Arguments& arguments) {
  constexpr size_t kMost = 1000;
  std::vector<std::vector<Setting>> all = {{}};
  for (const std::string& flag : arguments.All("--vary")) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(flag, absl::MaxSplits('=', 1));
    const auto& keys = all.front();
    if (std::any_of(keys.begin(), keys.end(),
                    [&](const Setting& s) { return s.key == pair.first; })) {
      return FlagError("--vary", absl::StrCat(pair.first,
                                              " is varied twice — give all its values at "
                                              "once: KEY=V1,V2,…"));
    }
    std::vector<std::vector<Setting>> next;
    for (const absl::string_view text : absl::StrSplit(pair.second, ',')) {
      ASSIGN_OR_RETURN(const Setting setting, SettingOf(pair.first, text));
      for (std::vector<Setting> settings : all) {
        settings.push_back(setting);
        next.push_back(std::move(settings));
      }
    }
    all = std::move(next);
    if (all.size() > kMost) return FlagError("--vary", "more than 1000 networks");
  }
  return all;
}

bool Varies(const std::vector<std::vector<Setting>>& variations, absl::string_view key) {
  const std::vector<Setting>& keys = variations.front();
  return std::any_of(keys.begin(), keys.end(), [&](const Setting& s) { return s.key == key; });
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
                                            ": one of device, domain, devices, global_batch, "
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
  double host_bytes = 0;  // for each device; 0: as the catalog has it
  planner::MachineRequest machine;
  std::optional<topology::Description> cluster;
  std::string kind;
  SearchRequest request;  // without the machine
  int64_t devices = 0;    // 0: all of the cluster
  Prices prices;
  bool prices_said = false;
};

// The basis with what one question changes.
struct Varied {
  std::optional<topology::Description> cluster;
  std::string kind;
  int64_t devices = 0, domain = 0, global_batch = 0;  // domain 0: the kind's
  std::string text;                                   // "domain=72 devices=8"
};

absl::StatusOr<Varied> VariedBy(const std::vector<Setting>& settings, const Basis& basis) {
  Varied varied{.cluster = basis.cluster,
                .kind = basis.kind,
                .devices = basis.devices,
                .global_batch = basis.request.global_batch};
  for (const auto& [key, text, value] : settings) {
    absl::StrAppend(&varied.text, varied.text.empty() ? "" : " ", key, "=", text);
    if (key == "device") {
      varied.kind = text;
    } else if (key == "domain" || key == "devices" || key == "global_batch") {
      RETURN_IF_ERROR(CheckCount(key, value));
      (key == "domain"    ? varied.domain
       : key == "devices" ? varied.devices
                          : varied.global_batch) = static_cast<int64_t>(value);
    } else {
      topology::Description none;
      RETURN_IF_ERROR(SetLink(key, value, varied.cluster.has_value() ? *varied.cluster : none));
    }
  }
  return varied;
}

// Links of a cluster; the host's and the disks' rates are the device's.
planner::Network WithHostOf(const planner::Network& device, planner::Network links) {
  links.host_rate = device.host_rate;
  links.page_rate = device.page_rate;
  links.coherent = device.coherent;
  links.host_memory_bytes = device.host_memory_bytes;
  links.host_memory_rate = device.host_memory_rate;
  links.host_is_device = device.host_is_device;
  links.disk_rate = device.disk_rate;
  return links;
}

// A line, once.
void Note(const std::string& notice, LoadedPlan& loaded) {
  if (absl::StrContains(loaded.notice, notice)) return;
  absl::StrAppend(&loaded.notice, loaded.notice.empty() ? "" : "\n", notice);
}

absl::StatusOr<PlanQuestion> QuestionOf(const Basis& basis, const std::vector<Setting>& settings,
                                        LoadedPlan& loaded) {
  ASSIGN_OR_RETURN(Varied varied, VariedBy(settings, basis));
  const std::string& kind = varied.kind;
  int64_t devices = varied.devices;
  PlanQuestion question{.settings = varied.text, .request = basis.request};
  question.request.global_batch = varied.global_batch;
  planner::MachineRequest wanted = basis.machine;
  wanted.gpu = kind;
  std::optional<planner::ClusterPart> part;
  if (varied.cluster.has_value()) {
    auto made = topology::Cluster::Make(*std::move(varied.cluster));
    if (!made.ok()) return FlagError("--vary", made.status().message());
    const std::string named = KindIn(*made, kind);
    auto found = planner::PartOf(*made, named, devices, {});
    if (!found.ok()) return FlagError("--topology", found.status().message());
    part = *std::move(found);
    wanted.gpu = named == kind ? part->kind : kind;
    devices = part->devices;
    question.kind = part->kind;
    question.cluster = std::make_shared<const topology::Cluster>(*std::move(made));
  }
  if (devices == 0) return FlagError("--devices", "say how many, or give --topology FILE");
  auto found = planner::Catalog::Shipped().Find(wanted);
  if (!found.ok()) {
    return FlagError(kind == basis.kind ? "--device" : "--vary", found.status().message());
  }
  planner::Machine& machine = found->machine;
  if (basis.request.pins.recompute == planner::Recompute::kListed &&
      !machine.software.saves_by_value) {
    return FlagError("--pin",
                     "recompute=save:… is of Strata's own steps — leave out --framework, or "
                     "pin none, selective, operators or full");
  }
  if (part.has_value()) {
    machine.network = WithHostOf(machine.network, part->network);
    loaded.network = absl::StrCat("links up to ", part->widest);
  }
  if (varied.domain > 0) {
    machine.network.domain_devices = varied.domain;
    machine.network.node_devices = std::min(machine.network.node_devices, varied.domain);
  }
  if (basis.host_bytes > 0) machine.network.host_memory_bytes = basis.host_bytes;
  if (machine.gpu.generation < kFirstWithBf16 && basis.request.precision == Precision::kHalf) {
    Note(absl::StrCat(machine.gpu.name,
                      " has no bf16: a job on it says train.precision: f16, which takes as long "
                      "and as much memory"),
         loaded);
  }
  loaded.software = found->software;
  question.gpu = machine.gpu.name;
  question.calibration = found->calibration;
  question.price_per_device_hour = basis.prices.Of(machine.gpu.name);
  if (question.price_per_device_hour == 0) {
    question.price_per_device_hour = machine.gpu.price_per_hour;
  }
  if (basis.prices_said && question.price_per_device_hour == 0) {
    return NoPriceOf(machine.gpu.name);
  }
  question.request.devices = devices;
  // As much as the card tells, which may be less than it is sold with.
  const auto card = planner::DeviceOf(machine.gpu.name, 0);
  if (card.ok()) question.card = *card;
  question.request.memory_bytes =
      kUsable * (card.ok() ? static_cast<double>(card->bytes) : machine.gpu.memory_bytes);
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
  ASSIGN_OR_RETURN(const auto variations, Variations(arguments));
  if (arguments.Has("--device") && Varies(variations, "device")) {
    return FlagError("--device", "--vary device=… says the kinds — leave one of both out");
  }
  if (!arguments.Has("--global-batch") && !Varies(variations, "global_batch")) {
    return FlagError("--global-batch", "say how many sequences");
  }
  basis.request.global_batch = arguments.Count("--global-batch").value_or(1);
  ASSIGN_OR_RETURN(basis.host_bytes, HostBytesOf(arguments));
  basis.request.most = static_cast<int>(arguments.Count("--top").value_or(5));
  basis.request.tiers = !arguments.Has("--no-offload");
  if (!basis.request.tiers && arguments.Has("--host-memory")) {
    return FlagError("--no-offload", "--host-memory says how much may leave the devices");
  }
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
    basis.kind = arguments.Text("--device", "h100");
  }
  ASSIGN_OR_RETURN(basis.prices, PricesOf(arguments));
  basis.prices_said = arguments.Has("--price");
  LoadedPlan loaded{.model = model, .saved_names = planner::SavedNames(model.spec.family)};
  for (const auto& [flag, key] :
       {std::pair("--devices", "devices"), std::pair("--global-batch", "global_batch")}) {
    if (!arguments.Has(flag) || !Varies(variations, key)) continue;
    Note(absl::StrCat(flag, " ", *arguments.Count(flag), " is not read: --vary ", key,
                      "=… says how many"),
         loaded);
  }
  if (model.spec.context > 0 && sequence > model.spec.context) {
    Note(absl::StrCat("--seq ", sequence, " is longer than the model's ", model.spec.context,
                      " positions: a job of it would be refused"),
         loaded);
  }
  loaded.run_tokens = arguments.Number("--tokens").value_or(0);
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
               "the best layout for each: device, devices, domain, global_batch, "
               "links.LEVEL.oversubscription, links.LEVEL.bytes_per_second"};
  vary.repeated = true;
  Flag set = {"--set", Kind::kText, "PATH=VALUE", "change a key of the job file; may be repeated"};
  set.repeated = true;
  Flag rank = {"--rank", Kind::kWord, "BY",
               "the order of variations: time or money, of as many tokens"};
  rank.words = {"time", "money"};
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
      {"--host-memory", Kind::kText, "SIZE", "that plans may use of the host, for each device"},
      PriceFlag("of one device and hour, of any kind or of each: h100=2.5,a100-80=1.2"),
      rank,
      tokens,
      {"--profile", Kind::kText, "F", "of this machine, for a job file (strata calibrate)"},
      set};
}

}  // namespace strata::client
