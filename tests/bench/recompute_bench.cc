// What recomputation costs and saves: one rank, the same model with nothing, attention, and
// everything of its blocks recomputed. The three take steps in turn in one process, so that they
// see the same machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "tests/bench/bench_model.h"
#include "worker/engine/communication_binding.h"

namespace strata::bench {
namespace {

using Mode = model::RecomputePlan::Mode;

constexpr int kBatches[] = {1, 4, 16, 64};

struct Options {
  bool quick = false;
  int steps = 5, sequence = 512, micro_batch = 1;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
};

struct Case {
  const char* name;
  Mode mode;
  std::unique_ptr<TrainingRank> rank;
  double flops = 0;
  std::vector<double> seconds;
};

TrainingSpec SpecOf(const Options& options, Mode mode, int micro_batch) {
  TrainingSpec spec;
  spec.model = BenchModel(options.quick, true);
  spec.emit = {.micro_batch = micro_batch,
               .sequence = options.sequence,
               .prefill_chunk = 0,
               .threads = options.threads,
               .recompute = {.mode = mode}};
  spec.plan.global_batch = micro_batch;
  spec.plan.gradient_clip = 1;
  spec.plan.scratch = worker::CollectiveScratchBytes;
  return spec;
}

// Of the products and attention of a step.
double FlopsOf(const program::ProgramSet& set) {
  double sum = 0;
  for (const program::Instruction& call : set.programs[0].instructions) {
    if (call.template_index >= 0) sum += set.templates[call.template_index].flops();
  }
  return sum;
}

double MebibytesOf(const program::ProgramSet& set) {
  return static_cast<double>(set.arena(program::Tier::kHost)) / (1 << 20);
}

// Nothing is run: what a rank would hold.
absl::Status PrintArenas(const Options& options, const std::vector<Case>& cases) {
  std::printf("\narena MiB by sequences of a micro-batch\n%-10s", "recompute");
  for (const int batch : kBatches) std::printf(" %9d", batch);
  std::printf("\n");
  for (const Case& c : cases) {
    std::printf("%-10s", c.name);
    for (const int batch : kBatches) {
      ASSIGN_OR_RETURN(const std::vector<program::StagePrograms> stages,
                       ComposeTraining(SpecOf(options, c.mode, batch)));
      std::printf(" %9.1f", MebibytesOf(stages.front().set));
    }
    std::printf("\n");
  }
  return absl::OkStatus();
}

absl::Status Measure(const Options& options, std::vector<Case>& cases) {
  device::ThreadPool pool(options.threads);
  for (Case& c : cases) {
    ASSIGN_OR_RETURN(
        c.rank, TrainingRank::Create(SpecOf(options, c.mode, options.micro_batch), nullptr, &pool));
    c.flops = FlopsOf(c.rank->engine().programs());
    RETURN_IF_ERROR(c.rank->Step());
  }
  const common::MonotonicClock clock;
  for (int step = 0; step < options.steps; ++step) {
    for (Case& c : cases) {
      const double begin = clock.Now();
      RETURN_IF_ERROR(c.rank->Step());
      c.seconds.push_back(clock.Now() - begin);
    }
  }
  std::printf("%-10s %12s %9s %9s %9s %9s %12s\n", "recompute", "arena MiB", "seconds", "least",
              "ratio", "GFLOP", "FLOP ratio");
  for (const Case& c : cases) {
    // Of a step and the one without recomputation beside it.
    std::vector<double> ratios;
    for (int step = 0; step < options.steps; ++step) {
      ratios.push_back(c.seconds[step] / cases[0].seconds[step]);
    }
    std::printf("%-10s %12.1f %9.3f %9.3f %9.3f %9.1f %12.3f\n", c.name,
                MebibytesOf(c.rank->engine().programs()), Median(c.seconds),
                *std::min_element(c.seconds.begin(), c.seconds.end()), Median(std::move(ratios)),
                c.flops / 1e9, c.flops / cases[0].flops);
  }
  // The pool outlives what uses it.
  for (Case& c : cases) c.rank.reset();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Memory and seconds of a step by what is recomputed");
  app.add_flag("--quick", options.quick, "A model of 3 M parameters instead of 124 M");
  app.add_option("--steps", options.steps, "Measured steps of each");
  app.add_option("--sequence", options.sequence, "Tokens of a sequence");
  app.add_option("--micro-batch", options.micro_batch, "Sequences");
  app.add_option("--threads", options.threads, "Of the rank");
  CLI11_PARSE(app, argc, argv);
  std::vector<Case> cases;
  cases.push_back({.name = "none", .mode = Mode::kNone});
  cases.push_back({.name = "selective", .mode = Mode::kSelective});
  cases.push_back({.name = "full", .mode = Mode::kFull});
  absl::Status status = Measure(options, cases);
  if (status.ok()) status = PrintArenas(options, cases);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
