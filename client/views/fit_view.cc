#include "client/views/fit_view.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/terminal/table.h"
#include "common/units.h"
#include "model/lora_proto.h"
#include "planner/fit/arithmetic.h"
#include "program/ir/types.h"

namespace strata::client {
namespace {

using planner::ByteClass;
using planner::FitRequest;
using planner::TierBytes;
using program::Tier;
using v1::ParallelSpec;

constexpr int kBarWidth = 30;

std::string Bytes(int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); }

// In eighths of a character.
std::string Bar(double part, bool unicode) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * kBarWidth * 8));
  if (!unicode) return std::string(static_cast<size_t>((eighths + 4) / 8), '#');
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kEighths[eighths % 8];
}

// The word of a job file for a protocol buffer's name: SHARD_ZERO1 is zero1.
std::string Word(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

Json ParallelJson(const ParallelSpec& parallel) {
  Json json = Json::object();
  const auto degree = [&](const char* key, int64_t value) {
    if (value > 1) json[key] = value;
  };
  json["data"] = std::max<int64_t>(1, parallel.data());
  degree("tensor", parallel.tensor());
  degree("context", parallel.context());
  degree("pipeline", parallel.pipeline());
  if (parallel.shard() > ParallelSpec::SHARD_NONE) {
    json["shard"] = Word(ParallelSpec::Shard_Name(parallel.shard()), "SHARD_");
    if (parallel.shard_group() > 0 && parallel.shard_group() != parallel.data()) {
      json["shard_group"] = parallel.shard_group();
    }
  }
  if (parallel.data() > 1 && parallel.has_virtual_shards()) {
    const int64_t leaves = parallel.virtual_shards();
    json["virtual_shards"] = leaves == 0 ? Json("off") : Json(leaves);
  }
  if (parallel.recompute().mode() > v1::RecomputeSpec::MODE_NONE) {
    json["recompute"] = Word(v1::RecomputeSpec::Mode_Name(parallel.recompute().mode()), "MODE_");
  }
  if (parallel.update_policy() > ParallelSpec::UPDATE_POLICY_DEFERRED) {
    json["update_policy"] =
        Word(ParallelSpec::UpdatePolicy_Name(parallel.update_policy()), "UPDATE_POLICY_");
  }
  return json;
}

void AddShares(const char* key, const v1::TierShares& shares, Json& place) {
  const double away = shares.host() + shares.ssd() + shares.unified();
  if (shares.host() == 1 || shares.ssd() == 1 || shares.unified() == 1) {
    place[key] = shares.host() == 1 ? "host" : shares.ssd() == 1 ? "ssd" : "unified";
  } else if (away > 0) {
    place[key] = {{"device", 1 - away}, {"host", shares.host()}, {"ssd", shares.ssd()}};
    if (shares.unified() > 0) place[key]["unified"] = shares.unified();
  }
}

Json MemoryJson(const FitRequest& request) {
  const v1::MemorySpec& memory = request.job.memory();
  const bool given = request.device_limit_given;
  Json json = Json::object();
  if (memory.has_device() && given) json["device"] = memory.device();
  if (memory.has_host()) json["host"] = memory.host();
  for (const v1::SsdPath& path : memory.ssd()) {
    json["ssd"].push_back({{"path", path.path()}, {"size", path.size()}});
  }
  Json place = Json::object();
  AddShares("parameters", memory.place().parameters(), place);
  AddShares("gradients", memory.place().gradients(), place);
  AddShares("optimizer", memory.place().optimizer(), place);
  AddShares("activations", memory.place().activations(), place);
  if (!place.empty()) json["place"] = std::move(place);
  if (memory.stream().resident() > 0) {
    json["stream"] = {{"resident", memory.stream().resident()},
                      {"moved", std::max<int64_t>(1, memory.stream().moved())}};
  }
  return json;
}

Json TrainJson(const v1::TrainSpec& train) {
  Json json = {{"sequence", train.sequence()},
               {"global_batch", train.global_batch()},
               {"micro_batch", train.micro_batch()},
               {"precision", Word(v1::TrainSpec::Precision_Name(train.precision()), "PRECISION_")},
               {"method", model::TrainsAdapters(train)
                              ? Word(v1::TrainSpec::Method_Name(train.method()), "METHOD_")
                              : "full"}};
  if (train.optimizer().state() > v1::OptimizerSpec::STATE_F32) {
    json["optimizer"]["state"] =
        Word(v1::OptimizerSpec::State_Name(train.optimizer().state()), "STATE_");
  }
  if (train.optimizer().master() == v1::OptimizerSpec::MASTER_SPLIT) {
    json["optimizer"]["master"] = "split";
  }
  return json;
}

// As YAML's flow style writes it: what differs between two, to be put into a job file.
std::string Flow(const Json& json) {
  return absl::StrReplaceAll(json.dump(), {{"\"", ""}, {":", ": "}, {",", ", "}});
}
Json Changed(const Json& from, const Json& to) {
  Json changed = Json::object();
  for (const auto& [key, value] : to.items()) {
    if (!from.contains(key) || from[key] != value) changed[key] = value;
  }
  return changed;
}

Json TiersJson(const planner::StageMemory& stage) {
  Json tiers = Json::object();
  for (int t = 0; t < program::kTierCount; ++t) {
    const TierBytes& tier = stage.tier(static_cast<Tier>(t));
    if (tier.total() == 0) continue;
    Json& classes = tiers[Name(static_cast<Tier>(t))] = Json::object();
    for (int c = 0; c < planner::kByteClassCount; ++c) {
      const auto klass = static_cast<ByteClass>(c);
      if (tier.of(klass) != 0) classes[Name(klass)] = tier.of(klass);
    }
  }
  return tiers;
}

void AddPrice(const FitShown& shown, const FitRequest& request, int ranks, double seconds,
              Json& json) {
  if (shown.price <= 0) return;
  const double billion = PricePerBillion(request, ranks, seconds, shown.price);
  json["price_per_billion_tokens"] = billion < 0 ? Json() : Json(billion);
  if (shown.run_tokens > 0) {
    json["price_of_run"] = billion < 0 ? Json() : Json(billion * shown.run_tokens / 1e9);
  }
}

// "1.2 s a step, 51.16 per 1e9 tokens, 767400 a run"; empty: not known.
std::string TimeText(const FitShown& shown, const FitRequest& request, int ranks, double seconds) {
  if (seconds < 0) return "";
  std::string text = absl::StrCat(common::FormatShortSeconds(seconds), " a step");
  const double billion = PricePerBillion(request, ranks, seconds, shown.price);
  if (shown.price > 0) absl::StrAppendFormat(&text, ", %.2f per 1e9 tokens", billion);
  if (shown.price > 0 && shown.run_tokens > 0) {
    absl::StrAppendFormat(&text, ", %.4g the run", billion * shown.run_tokens / 1e9);
  }
  return text;
}

Json WayJson(const FitShown& shown, const planner::Way& way) {
  Json json = {{"parallel", ParallelJson(way.request.job.parallel())},
               {"memory", MemoryJson(way.request)},
               {"train", TrainJson(way.request.job.train())},
               {"ranks", way.fit.memory.mesh.ranks()},
               {"worst_bytes", way.fit.verdict.needed},
               {"seconds", way.seconds < 0 ? Json() : Json(way.seconds)},
               {"text", way.text}};
  AddPrice(shown, way.request, way.fit.memory.mesh.ranks(), way.seconds, json);
  return json;
}

std::string NumbersText(const FitRequest& request) {
  const v1::TrainSpec& train = request.job.train();
  if (request.inference) {
    return absl::StrCat("inference, weights in ", request.weights_name, "; ", train.micro_batch(),
                        " × ", train.sequence(), " tokens of cache");
  }
  const Json words = TrainJson(train);
  return absl::StrCat(words["method"].get<std::string>(), ", ",
                      words["precision"].get<std::string>(), "; passes of ", train.micro_batch(),
                      " × ", train.sequence(), " tokens, ", train.global_batch(),
                      " sequences a step");
}

// Of a card whose host is more, or less, than another memory behind a slow link; else empty.
std::string DeviceText(const planner::FitDevice& device) {
  if (device.host_is_device) {
    return absl::StrCat(device.name,
                        ": host and device are one memory, so that what is placed on the host "
                        "frees nothing\n");
  }
  std::string text;
  if (device.coherent) {
    text = "the link to the host is coherent: the optimizer's state may be in unified memory";
  }
  if (device.host_bytes > 0) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", Bytes(device.host_bytes),
                    " of the host for each device, unless memory.host says another size");
  }
  return text.empty() ? "" : absl::StrCat(device.name, ": ", text, "\n");
}

Json DeviceJson(const planner::FitDevice& device) {
  return {{"name", device.name},
          {"bytes", device.bytes > 0 ? Json(device.bytes) : Json()},
          {"host_bytes", device.host_bytes > 0 ? Json(device.host_bytes) : Json()},
          {"coherent", device.coherent},
          {"host_is_device", device.host_is_device}};
}

std::string TierText(Tier t, const TierBytes& tier, const FitShown& shown) {
  std::string text = absl::StrFormat("  %-13s %12s\n", Name(t), Bytes(tier.total()));
  for (int c = 0; c < planner::kByteClassCount; ++c) {
    const auto klass = static_cast<ByteClass>(c);
    if (tier.of(klass) == 0) continue;
    const double part = static_cast<double>(tier.of(klass)) / static_cast<double>(tier.total());
    const std::string bar = Bar(part, shown.unicode);
    absl::StrAppendFormat(&text, "    %-13s %10s%s%s\n", Name(klass), Bytes(tier.of(klass)),
                          bar.empty() ? "" : "  ", bar);
  }
  return text;
}

std::string DetailText(const FitShown& shown) {
  const planner::MemoryOfJob& memory = shown.fit->memory;
  const planner::StageMemory& stage = memory.of_rank(memory.worst_rank());
  std::string text;
  if (!stage.peak.empty()) absl::StrAppend(&text, "  Fullest at: ", stage.peak, "\n");
  if (!shown.request->inference) {
    absl::StrAppend(&text, "  At their largest: activations ", Bytes(stage.largest_activations),
                    ", logits ", Bytes(stage.largest_logits), ".");
    if (memory.score_bytes > 0) {
      absl::StrAppend(&text, " Attention that keeps its scores (without flash) would need ",
                      common::FormatBytes(memory.score_bytes), " more a layer.");
    }
    absl::StrAppend(&text, "\n");
  }
  for (const planner::OverheadItem& item : memory.overhead_items) {
    absl::StrAppendFormat(&text, "  overhead: %s %s (%s)\n", item.what, Bytes(item.bytes),
                          item.source);
  }
  return text;
}

std::string ArithmeticText(const FitShown& shown) {
  std::vector<std::vector<std::string>> rows;
  for (const planner::Product& p : planner::ArithmeticOf(*shown.request, shown.fit->memory)) {
    rows.push_back(
        {Name(p.klass), p.factors, common::FormatBytes(p.bytes), common::FormatBytes(p.held)});
  }
  return absl::StrCat("\n",
                      FormatTable({"CLASS", "ARITHMETIC", "COMES TO", "HELD AT THE PEAK"}, rows));
}

std::string WaysText(const FitShown& shown) {
  if (shown.ways->empty()) return "No way was found that fits.\n";
  std::string text = "Ways that fit:\n";
  const v1::JobSpec& job = shown.request->job;
  int number = 0;
  for (const planner::Way& way : *shown.ways) {
    absl::StrAppend(&text, "  ", ++number, ". ", way.text, " — ", Bytes(way.fit.verdict.needed),
                    " of ", Bytes(way.fit.verdict.limit));
    const std::string time = TimeText(shown, way.request, way.fit.memory.mesh.ranks(), way.seconds);
    absl::StrAppend(&text, time.empty() ? "" : "; ", time, "\n");
    const auto add = [&](const char* key, const Json& from, const Json& to) {
      const Json changed = Changed(from, to);
      if (!changed.empty()) absl::StrAppend(&text, "       ", key, ": ", Flow(changed), "\n");
    };
    const v1::JobSpec& other = way.request.job;
    add("parallel", ParallelJson(job.parallel()), ParallelJson(other.parallel()));
    add("memory", MemoryJson(*shown.request), MemoryJson(way.request));
    add("train", TrainJson(job.train()), TrainJson(other.train()));
  }
  return text;
}

}  // namespace

double PricePerBillion(const FitRequest& request, int ranks, double seconds, double price) {
  const v1::TrainSpec& train = request.job.train();
  const double tokens = static_cast<double>(train.global_batch() * train.sequence());
  return seconds < 0 || tokens <= 0 ? -1 : price * ranks * seconds / 3600 / tokens * 1e9;
}

std::string FitText(const FitShown& shown) {
  const planner::MemoryOfJob& memory = shown.fit->memory;
  const FitRequest& request = *shown.request;
  const int worst = memory.worst_rank();
  std::string text =
      absl::StrCat(shown.title, ": ", common::FormatDecimal(memory.parameters, ""), " parameters, ",
                   NumbersText(request), "\n", memory.mesh.ranks(),
                   memory.mesh.ranks() == 1 ? " rank" : " ranks", " on ", request.device.name, ", ",
                   Flow(ParallelJson(request.job.parallel())), "; read from ", memory.basis, "\n",
                   DeviceText(request.device));
  if (memory.stages.size() > 1) {
    std::vector<std::vector<std::string>> rows;
    for (size_t s = 0; s < memory.stages.size(); ++s) {
      const planner::StageMemory& stage = memory.stages[s];
      rows.push_back({absl::StrCat(s)});
      for (const TierBytes& tier : stage.tiers) rows.back().push_back(Bytes(tier.total()));
    }
    absl::StrAppend(&text, "\n", FormatTable({"STAGE", "DEVICE", "HOST", "SSD"}, rows));
  }
  absl::StrAppend(&text, "\nRank ", worst, ", the worst",
                  memory.stages.size() > 1 ? "" : " (all are alike)", ":\n");
  for (int t = 0; t < program::kTierCount; ++t) {
    const TierBytes& tier = memory.of_rank(worst).tier(static_cast<Tier>(t));
    if (tier.total() > 0) absl::StrAppend(&text, TierText(static_cast<Tier>(t), tier, shown));
  }
  absl::StrAppend(&text, DetailText(shown));
  if (shown.arithmetic) absl::StrAppend(&text, ArithmeticText(shown));
  const planner::Verdict& verdict = shown.fit->verdict;
  absl::StrAppend(&text, "\n", verdict.fits ? "Fits: " : "Does not fit: ", verdict.ToText(), "\n");
  const std::string time = TimeText(shown, request, memory.mesh.ranks(), shown.seconds);
  if (!time.empty()) absl::StrAppend(&text, "Takes ", time, " (closed form)\n");
  if (shown.ways != nullptr && !verdict.fits) absl::StrAppend(&text, "\n", WaysText(shown));
  return text;
}

Json FitJson(const FitShown& shown) {
  const planner::MemoryOfJob& memory = shown.fit->memory;
  const planner::Verdict& verdict = shown.fit->verdict;
  Json ranks = Json::array();
  for (int rank = 0; rank < memory.mesh.ranks(); ++rank) {
    Json arenas = Json::object();
    for (int t = 0; t < program::kTierCount; ++t) {
      const int64_t bytes = memory.of_rank(rank).tier(static_cast<Tier>(t)).arena_bytes;
      if (bytes > 0) arenas[Name(static_cast<Tier>(t))] = bytes;
    }
    ranks.push_back({{"rank", rank},
                     {"tiers", TiersJson(memory.of_rank(rank))},
                     {"arena_bytes", std::move(arenas)}});
  }
  Json ways = Json::array();
  if (shown.ways != nullptr) {
    for (const planner::Way& way : *shown.ways) ways.push_back(WayJson(shown, way));
  }
  Json overhead = Json::array();
  for (const planner::OverheadItem& item : memory.overhead_items) {
    overhead.push_back({{"what", item.what}, {"bytes", item.bytes}, {"source", item.source}});
  }
  const planner::StageMemory& worst = memory.of_rank(memory.worst_rank());
  Json json = {{"fits", verdict.fits},
               {"device", DeviceJson(shown.request->device)},
               {"ranks", std::move(ranks)},
               {"worst", memory.worst_rank()},
               {"ways", std::move(ways)},
               {"why", verdict.ToText()},
               {"source", memory.from_program ? "program" : "closed form"},
               {"basis", memory.basis},
               {"parameters", std::llround(memory.parameters)},
               {"overhead", std::move(overhead)},
               {"largest_activations", worst.largest_activations},
               {"largest_logits", worst.largest_logits},
               {"attention_without_flash_per_layer", std::llround(memory.score_bytes)}};
  json["seconds"] = shown.seconds < 0 ? Json() : Json(shown.seconds);
  AddPrice(shown, *shown.request, memory.mesh.ranks(), shown.seconds, json);
  return json;
}

}  // namespace strata::client
