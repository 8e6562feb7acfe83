#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/planning/fit_request.h"
#include "client/planning/prices.h"
#include "client/views/fit_beside_view.h"
#include "client/views/fit_view.h"
#include "common/status_macros.h"
#include "planner/fit/largest.h"
#include "planner/fit/ways.h"
#include "planner/fit/zero_infinity.h"
#include "planner/search/job_choice.h"

namespace strata::client {
namespace {

using planner::FitRequest;
using planner::Quantity;

std::optional<Quantity> QuantityOf(const std::string& word) {
  if (word == "seq") return Quantity::kSequence;
  if (word == "micro-batch") return Quantity::kMicroBatch;
  if (word == "layers") return Quantity::kLayers;
  if (word == "devices") return Quantity::kDevices;
  return std::nullopt;
}

// The request with everything on SSD, which is what ZeRO-Infinity is held against.
FitRequest OnSsd(FitRequest request) {
  v1::MemorySpec& memory = *request.job.mutable_memory();
  memory.clear_ssd();
  memory.clear_host();
  memory.mutable_place()->Clear();
  v1::PlaceSpec& place = *memory.mutable_place();
  for (v1::TierShares* shares : {place.mutable_parameters(), place.mutable_gradients(),
                                 place.mutable_optimizer(), place.mutable_activations()}) {
    shares->set_ssd(1);
  }
  memory.mutable_stream()->Clear();
  memory.mutable_stream()->set_resident(2);
  memory.mutable_stream()->set_moved(1);
  v1::ParallelSpec& parallel = *request.job.mutable_parallel();
  parallel.set_update_policy(v1::ParallelSpec::UPDATE_POLICY_SPOOLED);
  if (parallel.data() > 1 && parallel.shard() < v1::ParallelSpec::SHARD_ZERO3) {
    parallel.set_shard(v1::ParallelSpec::SHARD_ZERO3);
    parallel.set_shard_group(parallel.data());
    parallel.set_virtual_shards(0);
  }
  return request;
}

absl::StatusOr<Against> Compare(const FitRequest& asked) {
  if (asked.inference || asked.model.kind != planner::FitModel::Kind::kFamily) {
    return absl::InvalidArgumentError(
        "--against: only training of a model that Strata trains is compared\n");
  }
  const FitRequest request = OnSsd(asked);
  Against against;
  const v1::TrainSpec& train = request.job.train();
  against.options.ranks = std::max<int64_t>(1, request.job.parallel().data());
  against.options.fp16 = train.precision() == v1::TrainSpec::PRECISION_F16;
  ASSIGN_OR_RETURN(against.model,
                   planner::ZeroInfinityModelOf(request.model.spec, against.options));
  against.items = planner::ZeroInfinityHost(against.model, against.options);
  ASSIGN_OR_RETURN(const planner::MemoryOfJob memory, planner::ReadMemoryOfJob(request));
  for (const planner::StageMemory& stage : memory.stages) {
    const planner::TierBytes& host = stage.tier(program::Tier::kHost);
    if (host.arena_bytes > against.host.arena_bytes) against.host = host;
  }
  return against;
}

struct Answer {
  FitRequest request;
  planner::Fit fit;
  std::vector<planner::Way> ways;
  double seconds = -1;  // of a step
  std::optional<Quantity> quantity;
  planner::Largest largest;
  std::optional<Against> against;
};

// Cheapest first, then those whose time nobody knows.
void ByPrice(std::vector<planner::Way>& ways) {
  const auto price = [](const planner::Way& way) {
    const double of = PricePerBillion(way.request, way.fit.memory.mesh.ranks(), way.seconds, 1);
    return of < 0 ? std::numeric_limits<double>::infinity() : of;
  };
  std::stable_sort(ways.begin(), ways.end(),
                   [&](const auto& a, const auto& b) { return price(a) < price(b); });
}

absl::StatusOr<Answer> Look(const Arguments& arguments, const LoadedFit& loaded) {
  Answer answer{.request = loaded.request};
  answer.quantity = QuantityOf(arguments.Text("--max"));
  if (answer.quantity.has_value()) {
    ASSIGN_OR_RETURN(answer.largest, planner::FindLargest(loaded.request, *answer.quantity));
    answer.request = answer.largest.request;
    answer.fit = answer.largest.fit;
  } else {
    ASSIGN_OR_RETURN(answer.fit, planner::ReadFit(loaded.request));
    if (!answer.fit.verdict.fits) {
      answer.ways = planner::FindWays(loaded.request, [](const FitRequest& way) {
        return planner::StepSecondsOf(planner::Catalog::Shipped(), way);
      });
    }
  }
  answer.seconds = planner::StepSecondsOf(planner::Catalog::Shipped(), answer.request);
  if (arguments.Has("--price")) ByPrice(answer.ways);
  if (arguments.Has("--against")) {
    ASSIGN_OR_RETURN(answer.against, Compare(answer.request));
  }
  return answer;
}

int Show(const Arguments& arguments, const LoadedFit& loaded, const Answer& answer,
         Terminal& terminal) {
  const FitShown shown{.title = loaded.title,
                       .request = &answer.request,
                       .fit = &answer.fit,
                       .ways = &answer.ways,
                       .seconds = answer.seconds,
                       .price = loaded.price,
                       .run_tokens = arguments.Number("--tokens").value_or(0),
                       .arithmetic = arguments.Has("--explain"),
                       .unicode = terminal.options().unicode};
  const std::string output = arguments.Text("--output");
  if (output == "json" || output == "yaml") {
    Json json = FitJson(shown);
    if (answer.quantity.has_value()) {
      json["max"] = LargestJson(*answer.quantity, answer.largest);
    }
    if (answer.against.has_value()) json["against"] = AgainstJson(*answer.against);
    terminal.Out(ToText(json, output));
  } else {
    for (const std::string& notice : loaded.notices) terminal.Say("note: " + notice);
    std::string text = FitText(shown);
    if (answer.quantity.has_value()) text += LargestText(*answer.quantity, answer.largest);
    if (answer.against.has_value()) text += AgainstText(*answer.against);
    terminal.Out(text);
  }
  return answer.fit.verdict.fits ? kExitDone : kExitInfeasible;
}

int RunFit(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<LoadedFit> loaded = LoadFit(arguments);
  if (!loaded.ok()) return Fail(loaded.status(), terminal);
  const absl::StatusOr<Answer> answer = Look(arguments, *loaded);
  if (!answer.ok()) return Fail(answer.status(), terminal);
  return Show(arguments, *loaded, *answer, terminal);
}

std::vector<Flag> FitFlags() {
  using Kind = Flag::Kind;
  constexpr double kMostTokens = 1 << 24, kMostSequences = 1 << 16, kMostRanks = 1 << 17;
  constexpr double kMostRunTokens = 1e18;
  std::vector<Flag> flags = {
      {"--model", Kind::kText, "NAME|DIR|config.json",
       "a published model, a Hugging Face directory, or its config.json"},
      {"--method", Kind::kWord, "METHOD", "full (default), lora, qlora or inference"},
      {"--precision", Kind::kWord, "TYPE",
       "default: f32, on cards bf16; int8 and nf4 of frozen weights"},
      {"--optimizer", Kind::kWord, "NAME",
       "adamw (default), sgd, or 8bit: adamw's state in 8 bits"},
      {"--seq", Kind::kCount, "N", "tokens of a sequence (default: 2048, or the context)", "", 1,
       kMostTokens},
      {"--micro-batch", Kind::kCount, "N", "sequences of a pass (default: 1)", "", 1,
       kMostSequences},
      {"--devices", Kind::kCount, "N", "ranks: the product of parallel's degrees", "", 1,
       kMostRanks},
      {"--device", Kind::kText, "KIND|SIZE",
       "cpu (default: this machine), a card such as h100 or a100-80, or its size: 24GB"},
      {"--memory", Kind::kText, "{...}", "as in a job file: tiers and what lives where"},
      {"--parallel", Kind::kText, "{...}", "as in a job file: degrees, shards, recompute"},
      {"--max", Kind::kWord, "WHAT",
       "the longest seq, largest micro-batch, most layers or fewest devices that fit"},
      {"--against", Kind::kWord, "zero-infinity", "host memory beside that of another system"},
      PriceFlag("of one device and hour: what tokens cost, and the cheapest way first"),
      {"--tokens", Kind::kNumber, "N", "of the whole run, such as 15e12", "", 1, kMostRunTokens},
      {"--explain", Kind::kSwitch, "", "the arithmetic behind the bytes"},
      {"--set", Kind::kText, "PATH=VALUE",
       "change a key of the job file, or of the job that flags make; may be repeated"}};
  const auto words = [&](const char* name, const std::vector<std::string>& known) {
    for (Flag& flag : flags) {
      if (flag.name == name) flag.words = known;
    }
  };
  words("--method", {"full", "lora", "qlora", "inference"});
  words("--precision", {"f32", "f16", "bf16", "fp8", "int8", "nf4"});
  words("--optimizer", {"adamw", "sgd", "8bit"});
  words("--max", {"seq", "micro-batch", "layers", "devices"});
  words("--against", {"zero-infinity"});
  flags.back().repeated = true;
  return flags;
}

}  // namespace

Command FitCommand() {
  Command command;
  command.name = "fit";
  command.usage =
      "JOB.yaml | --model NAME [--method METHOD] [--device KIND] [--devices N] [--max WHAT]";
  command.summary = "Tell how many bytes every rank would hold, whether they fit, and what would";
  command.most_arguments = 1;
  command.flags = FitFlags();
  command.outputs = {"table", "json", "yaml"};
  command.run = RunFit;
  return command;
}

}  // namespace strata::client
