// How much slower a step becomes as links do: one model on four ranks as data parallelism, zero3,
// pipeline and tensor group, on loopback links of 1, 1/2, 1/4 and 1/8 of a bandwidth and 1 and 10
// times a latency, beside what the timeline says of the same. Ends with 1 when the two differ by
// more than 15 %, or when tensor parallelism is not what slow links hurt most.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
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
    {.name = "data", .groups = {.data = 4}, .micro_batch = 4},
    {.name = "zero3", .groups = {.data = 4}, .level = ShardLevel::kParameters, .micro_batch = 4},
    {.name = "pipeline", .groups = {.pipeline = 4}},
    {.name = "tensor", .groups = {.tensor = 4}, .micro_batch = 16},
};
constexpr int64_t kBatch = 16;
constexpr double kLimit = 0.15;  // of measured beside predicted slow-down
// A point beyond the limit is measured so often, and its quickest step counts: what disturbs a
// machine for a moment only makes steps longer.
constexpr int kAttempts = 3;

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

// Seconds of a step on links of one kind, and what the timeline says of it.
struct Point {
  double measured = 0, predicted = 0;
};

class Sweep {
 public:
  Sweep(const Layout& layout, const Options& options)
      : layout_(layout),
        options_(options),
        spec_(SpecOf(Model(), layout.groups, layout.level, options.sequence, layout.micro_batch,
                     kBatch)) {}

  absl::Status Run() {
    for (const double latency : {1.0, 10.0}) {
      for (const double part : {1.0, 0.5, 0.25, 0.125}) {
        const collectives::LinkThrottle link{
            .bytes_per_second = options_.gigabytes * 1e9 * part,
            .latency_seconds = options_.microseconds * 1e-6 * latency};
        const absl::StatusOr<Point> point = MeasureAt(link);
        if (!point.ok()) return point.status();
        Tell(link, *point);
      }
    }
    return absl::OkStatus();
  }

  double worst() const { return worst_; }
  // Of the slowest links; those of the longest latency and the least bandwidth come last.
  double slow_down() const { return slow_down_; }

 private:
  static double Off(const Point& point, const Point& first) {
    return point.measured / first.measured / (point.predicted / first.predicted) - 1;
  }

  absl::StatusOr<Point> MeasureAt(const collectives::LinkThrottle& link) {
    RunOptions run = options_.run;
    run.throttle = link;
    Point point;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const absl::StatusOr<Measured> measured = RunLayout(spec_, run);
      if (!measured.ok()) return measured.status();
      // Of products and memory: those of the first run.
      if (first_.measured == 0 && attempt == 0) rates_ = measured->rates;
      rates_.link_bytes_per_second = link.bytes_per_second;
      rates_.link_latency_seconds = link.latency_seconds;
      const absl::StatusOr<double> predicted = PredictedStep(spec_, rates_);
      if (!predicted.ok()) return predicted.status();
      point.predicted = *predicted;
      point.measured = attempt == 0 ? measured->step : std::min(point.measured, measured->step);
      if (first_.measured == 0 || std::abs(Off(point, first_)) <= kLimit) break;
    }
    if (first_.measured == 0) first_ = point;
    return point;
  }

  void Tell(const collectives::LinkThrottle& link, const Point& point) {
    const double off = Off(point, first_);
    slow_down_ = point.measured / first_.measured;
    worst_ = std::max(worst_, std::abs(off));
    std::printf("%-9s %6.2f %8.0f %8.3f %10.2f %10.2f %8.2f\n", layout_.name,
                link.bytes_per_second / 1e9, link.latency_seconds * 1e6, point.measured, slow_down_,
                point.predicted / first_.predicted, 1 + off);
    std::fflush(stdout);
  }

  const Layout& layout_;
  const Options& options_;
  const TrainingSpec spec_;
  program::Rates rates_;
  Point first_;
  double worst_ = 0, slow_down_ = 0;
};

absl::StatusOr<bool> RunAll(const Options& options) {
  std::printf("%-9s %6s %8s %8s %10s %10s %8s\n", "layout", "GB/s", "us", "step s", "slow-down",
              "predicted", "ratio");
  double worst = 0, others = 0, tensor = 0;
  for (const Layout& layout : kLayouts) {
    Sweep sweep(layout, options);
    const absl::Status status = sweep.Run();
    if (!status.ok()) return status;
    worst = std::max(worst, sweep.worst());
    (layout.groups.tensor > 1 ? tensor : others) =
        std::max(layout.groups.tensor > 1 ? tensor : others, sweep.slow_down());
  }
  std::printf("worst prediction: %.0f %% beside the slow-down measured (limit %.0f %%)\n",
              100 * worst, 100 * kLimit);
  std::printf("slowest links: tensor x %.2f, of the others at most x %.2f\n", tensor, others);
  return worst <= kLimit && tensor > others;
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
  const absl::StatusOr<bool> kept = RunAll(options);
  if (!kept.ok()) std::fprintf(stderr, "%s\n", kept.status().ToString().c_str());
  return kept.ok() && *kept ? 0 : 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
