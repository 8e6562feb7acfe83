// How much slower a step becomes as links do: one model on four ranks as zero3, pipeline and tensor
// group, on loopback links of 1, 1/2, 1/4 and 1/8 of a bandwidth and 1 and 10 times a latency,
// beside what the timeline says of the same.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/bench/layout_runner.h"

namespace strata::bench {
namespace {

using program::GroupSizes;
using program::ShardLevel;

struct Layout {
  const char* name;
  GroupSizes groups;
  ShardLevel level = ShardLevel::kNone;
  int64_t micro_batch = 1;
};
const Layout kLayouts[] = {
    {.name = "zero3", .groups = {.data = 4}, .level = ShardLevel::kParameters, .micro_batch = 4},
    {.name = "pipeline", .groups = {.pipeline = 4}},
    {.name = "tensor", .groups = {.tensor = 4}, .micro_batch = 16},
};
constexpr int64_t kBatch = 16;

struct Options {
  double gigabytes = 4, microseconds = 20;
  int64_t sequence = 64;
  RunOptions run{.blocks = 2, .steps = 3};
};

model::ModelSpec Model() {
  return {.layers = 8,
          .hidden = 256,
          .heads = 8,
          .kv_heads = 8,
          .head_size = 32,
          .ffn = 704,
          .vocab = 4096,
          .context = 1024,
          .tied_embeddings = false};
}

absl::Status RunAll(const Options& options) {
  std::printf("%-9s %6s %8s %8s %10s %10s %8s\n", "layout", "GB/s", "us", "step s", "slow-down",
              "predicted", "ratio");
  for (const Layout& layout : kLayouts) {
    const TrainingSpec spec =
        SpecOf(Model(), layout.groups, layout.level, options.sequence, layout.micro_batch, kBatch);
    double first = 0, first_predicted = 0;
    program::Rates rates;
    for (const double latency : {1.0, 10.0}) {
      for (const double part : {1.0, 0.5, 0.25, 0.125}) {
        RunOptions run = options.run;
        run.throttle = {.bytes_per_second = options.gigabytes * 1e9 * part,
                        .latency_seconds = options.microseconds * 1e-6 * latency};
        const absl::StatusOr<Measured> measured = RunLayout(spec, run);
        if (!measured.ok()) return measured.status();
        if (first == 0) rates = measured->rates;  // of products and memory: those of the first run
        rates.link_bytes_per_second = run.throttle.bytes_per_second;
        rates.link_latency_seconds = run.throttle.latency_seconds;
        const absl::StatusOr<double> predicted = PredictedStep(spec, rates);
        if (!predicted.ok()) return predicted.status();
        if (first == 0) {
          first = measured->step;
          first_predicted = *predicted;
        }
        const double slower = measured->step / first, told = *predicted / first_predicted;
        std::printf("%-9s %6.2f %8.0f %8.3f %10.2f %10.2f %8.2f\n", layout.name,
                    run.throttle.bytes_per_second / 1e9, run.throttle.latency_seconds * 1e6,
                    measured->step, slower, told, slower / told);
        std::fflush(stdout);
      }
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("How much slower a step becomes as links do");
  app.add_option("--bandwidth", options.gigabytes, "Of the fastest link, GB/s");
  app.add_option("--latency", options.microseconds, "Of the fastest link, microseconds");
  app.add_option("--sequence", options.sequence, "Tokens of a sequence");
  app.add_option("--blocks", options.run.blocks, "Of steps with and without communication");
  app.add_option("--steps", options.run.steps, "Measured steps of a block");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = RunAll(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
