// Layer streaming on one rank, whose device is an arena of its own and whose copies between device
// and host pass over a link of limited bandwidth: what k layers resident and k' moved at once cost,
// by how long a layer's transfer takes beside its forward. Training with everything on the host and
// activations recomputed, and the reading of a prompt by a deeper model, as it keeps the keys and
// values of all layers; each in turn with the same program that keeps everything on the device. The
// op times of these very steps are what the timeline predicts with, as a shared machine's change
// within minutes. Then the largest micro-batch that a device of a given size trains. Ends with 1
// where the timeline's slow-down is more than 10 % off the measured one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "model/initialize.h"
#include "planner/cost/profile_cost_model.h"
#include "program/compose/decode.h"
#include "program/readers/timeline.h"
#include "tests/bench/bench_model.h"
#include "worker/engine/communication_binding.h"
#include "worker/trainer/calibration/op_times.h"

namespace strata::bench {
namespace {

using program::Place;
using program::Streaming;
using program::Tier;

constexpr double kLimit = 0.1;  // of measured beside predicted slow-down
constexpr double kRatios[] = {0.25, 0.5, 1, 2};
constexpr Streaming kStreamings[] = {{.resident = 1, .moved = 1},
                                     {.resident = 2, .moved = 1},
                                     {.resident = 3, .moved = 1},
                                     {.resident = 4, .moved = 2},
                                     {.resident = 4, .moved = 4}};
constexpr Place kHost = {.host = 1};

struct Options {
  int64_t layers = 12, read_layers = 24, hidden = 512;
  int64_t sequence = 256, micro_batch = 2, prompt = 512;
  int steps = 3, attempts = 3, threads = 1;
  int64_t device_mebibytes = 96;
  std::string only;  // kind; empty: all
  bool quick = false;
};

model::ModelSpec Model(const Options& options) {
  return {.layers = options.layers,
          .hidden = options.hidden,
          .heads = 8,
          .kv_heads = 8,
          .head_size = options.hidden / 8,
          .ffn = options.hidden * 11 / 4,
          .vocab = 2048,
          .context = 1024,
          .tied_embeddings = true};
}

// What runs a program again and again, and what of it is looked at.
struct Rank {
  std::unique_ptr<TrainingRank> training;  // or:
  std::unique_ptr<worker::SyntheticHost> host;
  std::unique_ptr<device::CpuDevice> device;
  std::vector<worker::TraceRecord> trace;
  std::unique_ptr<worker::Engine> reading;

  worker::Engine& engine() const { return training != nullptr ? training->engine() : *reading; }
  const std::vector<worker::TraceRecord>& actions() const {
    return training != nullptr ? training->trace() : trace;
  }
  absl::Status Step() const {
    RETURN_IF_ERROR(training != nullptr ? training->Step() : reading->RunStep(0, 0));
    return reading != nullptr ? reading->Drain() : absl::OkStatus();
  }
};

// A kind of program: without `streaming` everything is on the device.
struct Kind {
  const char* name;
  const char* program;
  std::function<absl::StatusOr<program::ProgramSet>(const Streaming*)> compose;
  std::function<absl::StatusOr<Rank>(const Streaming*, double link_rate)> make;
};

TrainingSpec SpecOf(const Options& options, const Streaming* streaming) {
  TrainingSpec spec;
  spec.model = Model(options);
  spec.emit = {.micro_batch = options.micro_batch,
               .sequence = options.sequence,
               .prefill_chunk = 0,
               .threads = options.threads,
               .recompute = {.mode = model::RecomputePlan::Mode::kFull}};
  spec.threads = options.threads;
  spec.plan.global_batch = options.micro_batch;
  spec.plan.gradient_clip = 1;
  spec.plan.scratch = worker::CollectiveScratchBytes;
  spec.plan.tier = Tier::kDevice;
  if (streaming == nullptr) return spec;
  spec.plan.places = {.parameters = kHost, .gradients = kHost, .optimizer = kHost};
  spec.plan.streaming = *streaming;
  return spec;
}

Kind Training(const Options& options, device::ThreadPool* pool) {
  return {.name = "train",
          .program = "train",
          .compose = [options](const Streaming* streaming) -> absl::StatusOr<program::ProgramSet> {
            ASSIGN_OR_RETURN(std::vector<program::StagePrograms> stages,
                             ComposeTraining(SpecOf(options, streaming)));
            return std::move(stages.front().set);
          },
          .make = [options, pool](const Streaming* streaming,
                                  double link_rate) -> absl::StatusOr<Rank> {
            TrainingSpec spec = SpecOf(options, streaming);
            spec.device.link_rate = link_rate;
            Rank rank;
            ASSIGN_OR_RETURN(rank.training, TrainingRank::Create(spec, nullptr, pool));
            return rank;
          }};
}

absl::StatusOr<program::DecodePrograms> ComposeReading(const Options& options,
                                                       const Streaming* streaming) {
  model::EmitOptions emit;
  emit.prefill_chunk = options.prompt;
  emit.threads = options.threads;
  model::ModelSpec spec = Model(options);
  spec.layers = options.read_layers;
  spec.context = options.prompt;
  ASSIGN_OR_RETURN(const program::LayerGraph graph, model::EmitFamily(spec, emit));
  program::DecodeOptions decode{.tier = Tier::kDevice};
  if (streaming != nullptr) decode.parameters = kHost, decode.streaming = *streaming;
  ASSIGN_OR_RETURN(std::vector<program::DecodePrograms> stages,
                   program::BuildDecode(graph, decode));
  return std::move(stages.front());
}

Kind Reading(const Options& options, device::ThreadPool* pool) {
  return {
      .name = "read",
      .program = "prefill",
      .compose = [options](const Streaming* streaming) -> absl::StatusOr<program::ProgramSet> {
        ASSIGN_OR_RETURN(program::DecodePrograms programs, ComposeReading(options, streaming));
        return std::move(programs.set);
      },
      .make = [options, pool](const Streaming* streaming,
                              double link_rate) -> absl::StatusOr<Rank> {
        ASSIGN_OR_RETURN(program::DecodePrograms programs, ComposeReading(options, streaming));
        Rank rank;
        rank.host = std::make_unique<worker::SyntheticHost>(Model(options).vocab, 1);
        rank.device =
            std::make_unique<device::CpuDevice>(device::CpuDeviceOptions{.link_rate = link_rate});
        rank.trace.resize(1 << 16);
        worker::EngineOptions engine;
        engine.pool = pool;
        engine.host = rank.host.get();
        engine.device = rank.device.get();
        engine.trace = absl::MakeSpan(rank.trace);
        ASSIGN_OR_RETURN(rank.reading, worker::Engine::Create(std::move(programs.set), engine));
        const program::ProgramSet& set = rank.reading->programs();
        for (size_t s = 0; s < set.sets.size(); ++s) {
          const absl::Span<std::byte> bytes =
              rank.reading->SlotBytes(programs.slots.parameters[s], 0, 0);
          model::FillInitial(
              set.sets[s], 1, 0,
              absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)));
        }
        return rank;
      }};
}

// Of the blocks, which outnumber other layers.
double FlopsOfForward(const program::ProgramSet& set) {
  std::vector<double> flops;
  for (const program::Instruction& call : set.programs[0].instructions) {
    if (call.template_index < 0 || call.purpose != program::Purpose::kForward) continue;
    flops.push_back(set.templates[call.template_index].flops());
  }
  return Median(std::move(flops));
}

double FlopsOfStep(const program::ProgramSet& set) {
  double sum = 0;
  for (const program::Instruction& call : set.programs[0].instructions) {
    if (call.template_index >= 0) sum += set.templates[call.template_index].flops();
  }
  return sum;
}

double BytesOfLayer(const program::ProgramSet& set) {
  const size_t middle = set.sets.size() / 2;
  return static_cast<double>(set.sets[middle].bytes());
}

double MebibytesOf(const program::ProgramSet& set) {
  return static_cast<double>(set.arena(Tier::kDevice)) / (1 << 20);
}

class Sweep {
 public:
  Sweep(const Kind& kind, const Options& options) : kind_(kind), options_(options) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(resident_, kind_.make(nullptr, 0));
    ASSIGN_OR_RETURN(resident_programs_, kind_.compose(nullptr));
    RETURN_IF_ERROR(SecondsOfResident().status());
    for (const double ratio : kRatios) {
      RETURN_IF_ERROR(MeasureResident());
      for (const Streaming& streaming : kStreamings) RETURN_IF_ERROR(Measure(ratio, streaming));
    }
    return absl::OkStatus();
  }

  bool off() const { return off_; }

 private:
  // What a link's rate follows from.
  absl::Status MeasureResident() {
    std::vector<double> seconds;
    for (int step = 0; step < options_.steps; ++step) {
      ASSIGN_OR_RETURN(seconds.emplace_back(), SecondsOfResident());
    }
    layer_seconds_ =
        Median(seconds) * FlopsOfForward(resident_programs_) / FlopsOfStep(resident_programs_);
    return absl::OkStatus();
  }

  absl::StatusOr<double> SecondsOf(const Rank& rank) const {
    const double begin = clock_.Now();
    RETURN_IF_ERROR(rank.Step());
    return clock_.Now() - begin;
  }

  absl::StatusOr<double> SecondsOfResident() {
    ++resident_steps_;
    return SecondsOf(resident_);
  }

  absl::StatusOr<double> PredictedSlowDown(const program::ProgramSet& set, double rate,
                                           int64_t first_step) const {
    RETURN_IF_ERROR(resident_.engine().Drain());
    worker::OpTimes times;
    times.Add(resident_.engine().programs(), resident_.actions(), first_step);
    v1::RankProfile profile;
    times.Write(profile);
    for (const int64_t bytes : {1 << 10, 1 << 30}) {
      v1::CopyTime& copy = *profile.add_copies();
      copy.set_bytes(bytes);
      copy.set_seconds(static_cast<double>(bytes) / rate);
    }
    const planner::ProfileCostModel costs(profile);
    ASSIGN_OR_RETURN(const program::Timeline streamed,
                     program::PredictTimeline({&set}, kind_.program, {}, costs));
    ASSIGN_OR_RETURN(const program::Timeline resident,
                     program::PredictTimeline({&resident_programs_}, kind_.program, {}, costs));
    return streamed.step_seconds / resident.step_seconds;
  }

  absl::Status Measure(double ratio, const Streaming& streaming) {
    const double rate = BytesOfLayer(resident_programs_) / (ratio * layer_seconds_);
    ASSIGN_OR_RETURN(const program::ProgramSet set, kind_.compose(&streaming));
    ASSIGN_OR_RETURN(Rank rank, kind_.make(&streaming, rate));
    RETURN_IF_ERROR(rank.Step());
    double measured = 0, predicted = 0, stalled = 0, difference = 0;
    for (int attempt = 0; attempt < options_.attempts; ++attempt) {
      const int64_t first_step = resident_steps_;
      RETURN_IF_ERROR(Alternate(rank, measured, stalled));
      ASSIGN_OR_RETURN(predicted, PredictedSlowDown(set, rate, first_step));
      difference = measured / predicted - 1;
      if (std::abs(difference) <= kLimit) break;
    }
    off_ |= std::abs(difference) > kLimit;
    const bool hides = ratio <= 1 && streaming.resident >= streaming.moved * (1 + ratio) - 1e-9;
    std::printf("%-6s %6.2f %3d %3d %-6s %11.1f %6.2f %10.3f %10.3f %8.3f %7.1f\n", kind_.name,
                ratio, streaming.resident, streaming.moved, hides ? "hidden" : "", MebibytesOf(set),
                MebibytesOf(set) / MebibytesOf(resident_programs_), measured, predicted,
                1 + difference, 100 * stalled);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  // Steps of both in turn: the median of the slow-downs, and the part of a step that compute stood.
  absl::Status Alternate(Rank& rank, double& slow_down, double& stalled) {
    std::vector<double> ratios, parts;
    for (int step = 0; step < options_.steps; ++step) {
      ASSIGN_OR_RETURN(const double resident, SecondsOfResident());
      ASSIGN_OR_RETURN(const double streamed, SecondsOf(rank));
      ratios.push_back(streamed / resident);
      const worker::StepMetrics& metrics = rank.engine().metrics();
      parts.push_back(metrics.exposed_communication() / metrics.total);
    }
    slow_down = Median(std::move(ratios));
    stalled = Median(std::move(parts));
    return absl::OkStatus();
  }

  const Kind& kind_;
  const Options& options_;
  const common::MonotonicClock clock_;
  Rank resident_;
  program::ProgramSet resident_programs_;
  int64_t resident_steps_ = 0;
  double layer_seconds_ = 0;  // of a block's forward
  bool off_ = false;
};

// Nothing is run: sequences of the largest micro-batch whose arena fits.
absl::Status PrintLargestBatches(Options options) {
  const int64_t limit = options.device_mebibytes << 20;
  struct Case {
    const char* name;
    program::Places places;
  };
  const Case cases[] = {
      {"everything on the device", {}},
      {"parameters streamed", {.parameters = kHost}},
      {"and gradients and optimizer on the host",
       {.parameters = kHost, .gradients = kHost, .optimizer = kHost}},
      {"and activations",
       {.parameters = kHost, .gradients = kHost, .optimizer = kHost, .activations = kHost}}};
  std::printf("\nlargest micro-batch of a device of %lld MiB, sequences of %lld tokens\n",
              static_cast<long long>(options.device_mebibytes),
              static_cast<long long>(options.sequence));
  for (const Case& c : cases) {
    int64_t largest = 0;
    for (int64_t batch = 1; batch <= 1024; ++batch) {
      options.micro_batch = batch;
      TrainingSpec spec = SpecOf(options, nullptr);
      spec.plan.places = c.places;
      if (c.places.beyond_device()) spec.plan.streaming = {.resident = 2, .moved = 1};
      ASSIGN_OR_RETURN(const std::vector<program::StagePrograms> stages, ComposeTraining(spec));
      if (stages.front().set.arena(Tier::kDevice) > limit) break;
      largest = batch;
    }
    std::printf("  %-42s %4lld\n", c.name, static_cast<long long>(largest));
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options, bool& off) {
  device::ThreadPool pool(options.threads);
  std::printf("%-6s %6s %3s %3s %-6s %11s %6s %10s %10s %8s %7s\n", "what", "t_x/t_c", "k", "k'",
              "plan", "device MiB", "share", "slow-down", "predicted", "ratio", "stall %");
  for (const Kind& kind : {Training(options, &pool), Reading(options, &pool)}) {
    if (!options.only.empty() && options.only != kind.name) continue;
    Sweep sweep(kind, options);
    RETURN_IF_ERROR(sweep.Run());
    off |= sweep.off();
  }
  return PrintLargestBatches(options);
}

int Main(int argc, char** argv) {
  Options options;
  // Copies have a processor of their own, as they have on a device that copies by itself.
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
  CLI::App app("Layers streamed over a link of limited bandwidth");
  app.add_flag("--quick", options.quick, "A model of 4 small layers");
  app.add_option("--only", options.only, "One of both")->check(CLI::IsMember({"train", "read"}));
  app.add_option("--layers", options.layers, "Of the model that is trained");
  app.add_option("--read-layers", options.read_layers, "Of the model that reads");
  app.add_option("--hidden", options.hidden, "Of the model; a multiple of 32");
  app.add_option("--sequence", options.sequence, "Tokens of a sequence");
  app.add_option("--micro-batch", options.micro_batch, "Sequences of a step");
  app.add_option("--prompt", options.prompt, "Tokens that are read at once");
  app.add_option("--steps", options.steps, "Of each, in turn");
  app.add_option("--threads", options.threads, "That compute");
  app.add_option("--device-mib", options.device_mebibytes, "Of the largest micro-batch's device");
  CLI11_PARSE(app, argc, argv);
  if (options.quick) {
    options.layers = options.read_layers = 4, options.hidden = 128,
    options.sequence = options.prompt = 64;
    options.device_mebibytes = 8;
  }
  bool off = false;
  const absl::Status status = Run(options, off);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && !off ? 0 : 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
