#include "client/planning/fit_request.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "client/planning/flag_error.h"
#include "client/planning/model_named.h"
#include "client/planning/prices.h"
#include "client/prepared_data.h"
#include "common/status_macros.h"
#include "data/corpus.h"
#include "model/model_spec_proto.h"
#include "planner/fit/verdict.h"
#include "spec/scalars.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using planner::FitModel;
using planner::FitRequest;

constexpr int64_t kUsualSequence = 2048;
constexpr char kParallel[] = "parallel=", kMemory[] = "memory=";

absl::StatusOr<planner::FitDevice> DeviceNamed(absl::string_view flag, const std::string& text) {
  const absl::StatusOr<int64_t> sized = spec::ParseSize(text);
  const bool has_unit = absl::EndsWith(text, "B");
  auto device = planner::DeviceOf(text, sized.ok() && has_unit ? *sized : 0);
  if (device.ok()) return device;
  return FlagError(flag, absl::StrCat(text, ": ", device.status().message()));
}

absl::string_view KeyOf(absl::string_view setting) { return setting.substr(0, setting.find('=')); }

// Whether one path is the other, or a section that it lies in.
bool Overlap(absl::string_view a, absl::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return absl::StartsWith(b, a) && (a.size() == b.size() || b[a.size()] == '.');
}

// Which flag says what stands at a path of the job that the flags make; settings go over others.
absl::string_view FlagOf(absl::string_view path, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    if (Overlap(KeyOf(setting), path)) return "--set";
  }
  static constexpr std::pair<const char*, const char*> kFlags[] = {
      {"train.sequence", "--seq"},
      {"train.micro_batch", "--micro-batch"},
      {"train.precision", "--precision"},
      {"train.method", "--method"},
      {"train.optimizer", "--optimizer"},
      {"parallel", "--parallel"},
      {"memory", "--memory"},
      {"resources.ranks", "--devices"}};
  for (const auto& [prefix, flag] : kFlags) {
    if (absl::StartsWith(path, prefix)) return flag;
  }
  return "--model";
}

bool SetsBatch(const std::vector<std::string>& settings) {
  return std::any_of(settings.begin(), settings.end(), [](const std::string& setting) {
    const absl::string_view key = KeyOf(setting);
    return key == "train.global_batch" ||
           (key == "train" && absl::StrContains(setting, "global_batch"));
  });
}

// With a model the flags make the job: of a file's keys those that say how it is trained.
absl::Status CheckSettings(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const absl::string_view key = KeyOf(setting);
    bool known = key == "resources.ranks";
    for (const char* section : {"train", "parallel", "memory"}) known |= Overlap(section, key);
    if (known) continue;
    return FlagError("--set", absl::StrCat(key,
                                           ": says nothing of --model — a key of train, parallel "
                                           "or memory, or resources.ranks"));
  }
  return absl::OkStatus();
}

absl::Status AboutFlags(const spec::Problems& problems, const std::vector<std::string>& settings) {
  if (problems.empty()) return absl::OkStatus();
  std::string text;
  for (const spec::Problem& problem : problems.Sorted()) {
    const absl::string_view flag = FlagOf(problem.path, settings);
    absl::StrAppend(&text, flag);
    if (problem.position.in_set) {
      const size_t prefix = flag == "--set"      ? 1
                            : flag == "--memory" ? sizeof(kMemory)
                                                 : sizeof(kParallel);
      absl::StrAppend(&text,
                      ":1:", std::max(1, problem.position.column - static_cast<int>(prefix) + 1));
    }
    absl::StrAppend(&text, ": ", problem.path, ": ", problem.what,
                    problem.remedy.empty() ? "" : " — ", problem.remedy, "\n");
  }
  const absl::StatusCode code = problems.ToStatus().code();
  return absl::Status(code, text);
}

struct Numbers {
  std::string precision;                          // of the job file
  std::string quantize;                           // nf4 or int8; empty: none
  program::DType weights = program::DType::kF32;  // of inference
};

absl::StatusOr<Numbers> NumbersOf(const Arguments& arguments, const std::string& method,
                                  bool on_card) {
  const std::string asked = arguments.Text("--precision", on_card ? "bf16" : "f32");
  Numbers numbers{.precision = asked};
  const bool quantised = asked == "int8" || asked == "nf4";
  if (quantised && method != "qlora" && method != "inference") {
    return FlagError("--precision",
                     absl::StrCat(asked,
                                  " is of frozen weights — use it with --method qlora or "
                                  "inference, or choose f32, f16, bf16 or fp8"));
  }
  if (quantised || method == "qlora") {
    numbers.quantize = quantised ? asked : "nf4";
    if (quantised) numbers.precision = "bf16";
  }
  using program::DType;
  numbers.weights = asked == "int8"   ? DType::kInt8
                    : asked == "fp8"  ? DType::kInt8  // a byte each
                    : asked == "nf4"  ? DType::kNf4
                    : asked == "bf16" ? DType::kBF16
                    : asked == "f16"  ? DType::kF16
                                      : DType::kF32;
  return numbers;
}

std::string TrainText(const Arguments& arguments, const FitModel& model, const Numbers& numbers,
                      int64_t global_batch) {
  const std::string method = arguments.Text("--method", "full");
  const std::string optimizer = arguments.Text("--optimizer", "adamw");
  const int64_t sequence =
      arguments.Count("--seq").value_or(std::min(kUsualSequence, model.spec.context));
  std::string text = absl::StrCat(
      "{sequence: ", sequence, ", micro_batch: ", arguments.Count("--micro-batch").value_or(1),
      ", global_batch: ", global_batch, ", precision: ", numbers.precision);
  if (method == "lora" || method == "qlora") absl::StrAppend(&text, ", method: ", method);
  if (method == "qlora") absl::StrAppend(&text, ", quantize: {type: ", numbers.quantize, "}");
  if (optimizer == "sgd") absl::StrAppend(&text, ", optimizer: {name: sgd}");
  if (optimizer == "8bit") absl::StrAppend(&text, ", optimizer: {state: 8bit}");
  return text + "}";
}

struct JobOfFlags {
  v1::JobSpec job;
  bool batch_given = false;  // by --set; else one pass of each rank and stage
};

// The job that the flags describe, its problems told by flag.
absl::StatusOr<JobOfFlags> ReadFlags(const Arguments& arguments, const FitModel& model,
                                     const v1::ModelSpec& message, const Numbers& numbers,
                                     bool on_card) {
  const std::vector<std::string> settings = arguments.All("--set");
  RETURN_IF_ERROR(CheckSettings(settings));
  spec::ReadOptions options;
  options.default_name = "fit";
  options.ranks = arguments.Count("--devices");
  options.model_of = [&](const std::string&) { return spec::ModelDirectory{message, false}; };
  if (arguments.Has("--parallel")) {
    options.settings.push_back(kParallel + arguments.Text("--parallel"));
  }
  if (arguments.Has("--memory")) options.settings.push_back(kMemory + arguments.Text("--memory"));
  options.settings.insert(options.settings.end(), settings.begin(), settings.end());
  const auto read = [&](int64_t global_batch, spec::Problems& problems) {
    const std::string text =
        absl::StrCat("model: {from: .}\ndata: {train: [{path: tokens}]}\ntrain: ",
                     TrainText(arguments, model, numbers, global_batch), "\n",
                     on_card ? "resources: {device: gpu}\n" : "");
    return spec::ReadJob(text, options, problems).job;
  };
  // Batches follow from degrees, which are read first.
  constexpr int64_t kDivisible = 1 << 20;
  spec::Problems first("--model");
  const v1::JobSpec draft = read(kDivisible * arguments.Count("--micro-batch").value_or(1), first);
  if (draft.parallel().automatic()) {
    return FlagError("--parallel",
                     "auto says nothing to count — give the degrees, such as "
                     "{data: 2}, or ask strata plan");
  }
  if (draft.memory().automatic()) {
    return FlagError("--memory",
                     "auto says nothing to count — name the tiers, such as "
                     "{device: 8GiB}, or leave it out");
  }
  if (draft.memory().place().automatic()) {
    return FlagError("--memory",
                     "place: auto says nothing to count — name the tiers, such as "
                     "{optimizer: host}, or leave it out");
  }
  if (first.empty() && draft.train().micro_batch() == 0) {
    return FlagError("--set",
                     "train.micro_batch=auto says nothing to count — give a number, or ask for "
                     "the largest: --max micro-batch");
  }
  if (!first.empty() && draft.parallel().data() < 1) return AboutFlags(first, settings);
  const int64_t data = std::max<int64_t>(1, draft.parallel().data());
  const int64_t passes = std::max<int64_t>(1, draft.parallel().pipeline());
  const int64_t micro = std::max<int64_t>(1, draft.train().micro_batch());
  spec::Problems problems("--model");
  JobOfFlags made{.job = read(data * passes * micro, problems), .batch_given = SetsBatch(settings)};
  RETURN_IF_ERROR(AboutFlags(problems, settings));
  return made;
}

// Flags that change nothing of what is asked, one line each.
std::vector<std::string> Unread(const Arguments& arguments, const std::string& method) {
  std::vector<std::string> notices;
  const auto note = [&](const char* flag, bool unread, absl::string_view why) {
    if (unread && arguments.Has(flag)) {
      notices.push_back(absl::StrCat(flag, " ", arguments.Text(flag), " changes nothing: ", why));
    }
  };
  const std::string max = arguments.Text("--max");
  note("--seq", max == "seq", "--max seq finds it");
  note("--micro-batch", max == "micro-batch", "--max micro-batch finds it");
  note("--optimizer", method == "inference", "inference trains nothing");
  return notices;
}

absl::StatusOr<LoadedFit> FitOfFlags(const Arguments& arguments) {
  LoadedFit loaded;
  FitRequest& request = loaded.request;
  v1::ModelSpec message;
  ASSIGN_OR_RETURN(request.model, ModelNamed(arguments.Text("--model"), message));
  loaded.title = request.model.name;
  ASSIGN_OR_RETURN(request.device, DeviceNamed("--device", arguments.Text("--device", "cpu")));
  const std::string method = arguments.Text("--method", "full");
  loaded.notices = Unread(arguments, method);
  ASSIGN_OR_RETURN(const Numbers numbers, NumbersOf(arguments, method, !request.device.is_cpu));
  ASSIGN_OR_RETURN(JobOfFlags made,
                   ReadFlags(arguments, request.model, message, numbers, !request.device.is_cpu));
  request.job = std::move(made.job);
  request.batch_given = made.batch_given;
  request.inference = method == "inference";
  request.weights = numbers.weights;
  request.weights_name = arguments.Text("--precision", request.device.is_cpu ? "f32" : "bf16");
  return loaded;
}

// Sequences that a job's evaluations read: as many as the data have, where it can be told.
int64_t EvaluateSequences(const v1::JobSpec& job, std::vector<std::string>& notices) {
  const bool validates =
      job.data().validation().has_path() || job.data().validation().has_fraction();
  if (!validates || job.evaluate().every_steps() < 1) return 0;
  const auto assume = [&](absl::string_view why) {
    notices.push_back(absl::StrCat("the validation data were not counted (", why,
                                   "): ", job.evaluate().sequences(), " sequences are assumed"));
    return job.evaluate().sequences();
  };
  std::vector<std::string> paths = {job.data().validation().path()};
  for (const auto& file : job.data().train()) paths.push_back(file.path());
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const auto needed = NeedsPreparation(path, job.data().has_tokenizer());
    if (!needed.ok()) return assume(needed.status().message());
    if (*needed) return assume(absl::StrCat(path, " is prepared when the job starts"));
  }
  const auto corpus = data::OpenCorpus(CorpusOf(job), nullptr);
  if (!corpus.ok()) return assume(corpus.status().message());
  return std::min(job.evaluate().sequences(), corpus->validation.windows());
}

absl::Status CheckDecided(const LoadedJob& loaded) {
  const v1::JobSpec& job = loaded.file.job;
  spec::Problems problems(loaded.path);
  const auto refuse = [&](bool automatic, const char* path, const char* remedy) {
    if (!automatic) return;
    problems.Add({loaded.file.positions.Of(path), path,
                  "auto says nothing to count (it is decided when the job is planned)", remedy});
  };
  refuse(job.parallel().automatic(), "parallel", "give the degrees, such as {data: 2}");
  refuse(job.memory().automatic(), "memory", "name the tiers, such as {device: 8GiB}");
  refuse(job.memory().place().automatic(), "memory.place",
         "name the tiers, such as {optimizer: host}");
  refuse(job.train().micro_batch() == 0, "train.micro_batch",
         "give a number, or ask for the largest: micro_batch: 1 and --max micro-batch");
  const auto sizes = model::FromProto(job.model());
  if (!sizes.ok() && problems.empty()) {
    problems.Add({loaded.file.positions.Of("model"), "model", std::string(sizes.status().message()),
                  "correct it"});
  }
  return problems.ToStatus();
}

absl::StatusOr<LoadedFit> FitOfJob(const Arguments& arguments, const std::string& path) {
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  options.ranks = arguments.Count("--devices");
  ASSIGN_OR_RETURN(const LoadedJob job, ReadJobAlone(path, options));
  RETURN_IF_ERROR(CheckDecided(job));
  LoadedFit loaded{.title = job.file.job.name(), .notices = job.notices};
  FitRequest& request = loaded.request;
  request.job = job.file.job;
  request.model.name = loaded.title;
  ASSIGN_OR_RETURN(request.model.spec, model::FromProto(request.job.model()));
  const std::string& kind = request.job.resources().device();
  if (kind == "gpu" && !arguments.Has("--device")) {
    return FlagError("--device", "the job runs on any kind of gpu — say which one to look at");
  }
  const spec::Position at = job.file.positions.Of("resources.device");
  const std::string key = absl::StrCat(path, ":", at.line, ":", at.column, ": resources.device");
  ASSIGN_OR_RETURN(request.device, DeviceNamed(arguments.Has("--device") ? "--device" : key,
                                               arguments.Text("--device", kind)));
  request.evaluate_sequences = EvaluateSequences(request.job, loaded.notices);
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedFit> LoadFit(const Arguments& arguments) {
  const bool named = arguments.Has("--model");
  if (named != arguments.positional().empty()) {
    return FlagError("strata fit", named ? "give a job file or --model, not both"
                                         : "say what to look at — JOB.yaml, or --model NAME");
  }
  if (!named) {
    for (const char* flag : {"--method", "--precision", "--optimizer", "--seq", "--micro-batch",
                             "--memory", "--parallel"}) {
      if (!arguments.Has(flag)) continue;
      return FlagError(flag, "goes with --model — of a job file, change the key: --set PATH=VALUE");
    }
  }
  ASSIGN_OR_RETURN(LoadedFit loaded,
                   named ? FitOfFlags(arguments) : FitOfJob(arguments, arguments.positional()[0]));
  FitRequest& request = loaded.request;
  if (request.device.is_cpu) {
    request.machine_bytes = UsableMemory();
    request.threads = ThreadsPerRank(request.job.resources().ranks());
  }
  planner::CompleteRequest(request);
  if (arguments.Has("--price")) {
    ASSIGN_OR_RETURN(const Prices prices, PricesOf(arguments));
    loaded.price = prices.Of(request.device.name);
    if (loaded.price == 0) return NoPriceOf(request.device.name);
  }
  return loaded;
}

}  // namespace strata::client
