// How much of a data-parallel step is communication that nothing hides, on two ranks of this
// machine over UCX, a core each.
//
// Each layout's program runs alternately as it is and with its communication left out (operations
// end at once). exposed = (step - the same without communication) / step: what communication costs
// a step in all, so also the processor time that copying and adding take from the rank's one core.
// Beside it: what the step's own record says (compute stood and waited), and what the timeline
// predicts from rates measured in the same run.
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

#include "collectives/process_world.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "program/ir/mesh.h"
#include "program/readers/timeline.h"
#include "tests/bench/step_trace.h"
#include "tests/bench/stub_communicator.h"
#include "tests/bench/training_rank.h"
#include "worker/engine/communication_binding.h"

namespace strata::bench {
namespace {

using collectives::Communicator;
using worker::StepMetrics;

constexpr int kRanks = 2;
constexpr unsigned kMostSeconds = 900;

struct Options {
  bool quick = false, untied = false, waits = false, pin = true;
  int blocks = 3, steps = 4, sequence = 64, micro_batches = 1;
  int64_t prefetch_mib = -1;
  std::string only;
};

// What one rank measured; lies in memory that the processes share.
struct Measured {
  double step = 0, stubbed = 0;                    // seconds, medians
  double compute = 0, stubbed_compute = 0;         // of them on the compute stream
  double processor = 0, stubbed_processor = 0;     // seconds of all threads, per step
  double recorded = 0;                             // exposed_communication_seconds
  double predicted = 0, predicted_step = 0;        // the timeline's
  StepMetrics::ByPurpose exposed{}, background{};  // medians, of steps as they are
  program::Rates rates;
};

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Samples of one kind of step.
struct Steps {
  std::vector<double> seconds, compute, processor, recorded;
  std::array<std::vector<double>, program::kPurposeCount> exposed, background;

  void Add(double step, const StepMetrics& metrics) {
    seconds.push_back(step);
    compute.push_back(std::accumulate(metrics.compute.begin(), metrics.compute.end(), 0.0));
    recorded.push_back(metrics.exposed_communication());
    for (int p = 0; p < program::kPurposeCount; ++p) {
      exposed[p].push_back(metrics.exposed[p]);
      background[p].push_back(metrics.background[p]);
    }
  }
};

class RankBench {
 public:
  RankBench(const Options& options, program::ShardLevel level, Communicator& communicator)
      : options_(options), level_(level), real_(&communicator), stub_(&communicator) {}

  absl::Status Run(Measured& result) {
    if (options_.pin) Pin();
    FlushDenormals();
    device::ThreadPool pool(1);
    std::vector<int> world(real_->size());
    std::iota(world.begin(), world.end(), 0);
    ASSIGN_OR_RETURN(world_, stub_.CreateGroup(world));
    ASSIGN_OR_RETURN(rank_, TrainingRank::Create(Spec(), &stub_, &pool));
    RETURN_IF_ERROR(MeasureLink(result.rates));
    Steps real, stubbed;
    for (int block = 0; block < options_.blocks; ++block) {
      RETURN_IF_ERROR(RunBlock(false, real));
      if (options_.waits && block == 0 && real_->rank() == 0)
        PrintWaits(rank_->engine(), rank_->trace());
      RETURN_IF_ERROR(RunBlock(true, stubbed));
    }
    MeasureOps(rank_->engine().programs(), rank_->trace(), result.rates);
    Summarise(real, stubbed, result);
    return Predict(result);
  }

 private:
  // Rank r computes and communicates on the r-th of the processors that this process may use.
  void Pin() const {
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) cores.push_back(core);
    }
    CPU_ZERO(&own);
    CPU_SET(cores[real_->rank() % cores.size()], &own);
    sched_setaffinity(0, sizeof(own), &own);
  }

  // What stands where nothing was gathered can be denormal numbers, which processors are slow with.
  // Threads inherit the mode.
  static void FlushDenormals() {
#ifdef __SSE__
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;  // Intel SDM 1, 10.2.3
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
  }

  TrainingSpec Spec() const {
    TrainingSpec spec;
    spec.model = BenchModel(options_.quick, !options_.untied);
    spec.emit = {.micro_batch = 1, .sequence = options_.sequence, .prefill_chunk = 0};
    spec.plan.groups.data = kRanks;
    spec.plan.shard = level_;
    if (level_ != program::ShardLevel::kNone) spec.plan.groups.shard = kRanks;
    // The defaults of a job: the data degree, or off where every micro-batch is reduced.
    spec.plan.virtual_shards = level_ == program::ShardLevel::kParameters ? 0 : kRanks;
    spec.plan.global_batch = int64_t{kRanks} * options_.micro_batches;
    spec.plan.gradient_clip = 1;
    if (options_.prefetch_mib >= 0) spec.plan.prefetch_bytes = options_.prefetch_mib << 20;
    spec.plan.scratch = worker::CollectiveScratchBytes;
    return spec;
  }

  // The first step of a block fills what reaches over the boundary of steps.
  absl::Status RunBlock(bool stubbed, Steps& samples) {
    RETURN_IF_ERROR(rank_->engine().RunCollective({.group = world_}));
    stub_.SetStubbed(stubbed);
    RETURN_IF_ERROR(rank_->Step());
    double end = clock_.Now();
    const double processor = ProcessorSeconds();
    for (int step = 0; step < options_.steps; ++step) {
      RETURN_IF_ERROR(rank_->Step());
      const double begin = std::exchange(end, clock_.Now());
      samples.Add(end - begin, rank_->engine().metrics());
    }
    samples.processor.push_back((ProcessorSeconds() - processor) / options_.steps);
    RETURN_IF_ERROR(rank_->engine().Drain());
    stub_.SetStubbed(false);
    return absl::OkStatus();
  }

  // Of sums of 16 MiB and of one element, with nothing else to do.
  absl::Status MeasureLink(program::Rates& rates) {
    constexpr int64_t kMost = 4 << 20;
    std::vector<float> values(kMost, 1);
    const int64_t scratch_bytes = collectives::ScratchBytes(
        collectives::OpKind::kAllReduce, collectives::DataType::kF32, kMost, kRanks);
    std::vector<float> scratch(scratch_bytes / 4 + 16);
    const auto aligned = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
    const auto seconds = [&](int64_t count) -> absl::StatusOr<double> {
      std::vector<double> found;
      for (int i = 0; i < 9; ++i) {
        const double begin = clock_.Now();
        RETURN_IF_ERROR(rank_->engine().RunCollective({.kind = collectives::OpKind::kAllReduce,
                                                       .group = world_,
                                                       .type = collectives::DataType::kF32,
                                                       .count = count,
                                                       .in = values.data(),
                                                       .out = values.data(),
                                                       .scratch = reinterpret_cast<void*>(aligned),
                                                       .scratch_bytes = scratch_bytes}));
        found.push_back(clock_.Now() - begin);
      }
      return Median(std::move(found));
    };
    ASSIGN_OR_RETURN(rates.link_latency_seconds, seconds(1));
    ASSIGN_OR_RETURN(const double whole, seconds(kMost));
    rates.link_bytes_per_second = 2.0 * (kRanks - 1) / kRanks * kMost * 4 / whole;
    return absl::OkStatus();
  }

  void Summarise(const Steps& real, const Steps& stubbed, Measured& result) const {
    result.step = Median(real.seconds);
    result.stubbed = Median(stubbed.seconds);
    result.compute = Median(real.compute);
    result.stubbed_compute = Median(stubbed.compute);
    result.processor = Median(real.processor);
    result.stubbed_processor = Median(stubbed.processor);
    result.recorded = Median(real.recorded);
    for (int p = 0; p < program::kPurposeCount; ++p) {
      result.exposed[p] = Median(real.exposed[p]);
      result.background[p] = Median(real.background[p]);
    }
  }

  absl::Status Predict(Measured& result) const {
    const program::ProgramSet& set = rank_->engine().programs();
    const program::RateCostModel costs(result.rates);
    ASSIGN_OR_RETURN(const program::Timeline timeline,
                     program::PredictTimeline({&set}, "train", {.sizes = set.groups}, costs));
    const program::RankTimeline& own = timeline.ranks[real_->rank()];
    result.predicted = own.exposed_seconds;
    result.predicted_step = own.step_seconds;
    return absl::OkStatus();
  }

  const Options& options_;
  const program::ShardLevel level_;
  Communicator* const real_;
  StubCommunicator stub_;
  collectives::GroupId world_;
  std::unique_ptr<TrainingRank> rank_;
  const common::MonotonicClock clock_;
};

// Steps of the slowest rank; everything else of rank 0.
void Report(const char* name, const Measured* ranks) {
  const Measured& first = ranks[0];
  double step = 0, stubbed = 0;
  for (int r = 0; r < kRanks; ++r) {
    step = std::max(step, ranks[r].step);
    stubbed = std::max(stubbed, ranks[r].stubbed);
  }
  std::printf("%-6s %8.3f %8.3f %7.1f %% %8.1f %% %8.1f %% %10.3f %10.3f %10.3f\n", name, step,
              stubbed, 100 * (step - stubbed) / step, 100 * first.recorded / first.step,
              100 * first.predicted / first.predicted_step,
              first.processor - first.stubbed_processor, first.compute, first.stubbed_compute);
  std::printf("       rates: %.1f GFLOP/s, memory %.1f GB/s, link %.2f GB/s and %.0f us; waits for",
              first.rates.flops_per_second / 1e9, first.rates.memory_bytes_per_second / 1e9,
              first.rates.link_bytes_per_second / 1e9, first.rates.link_latency_seconds * 1e6);
  for (int p = 0; p < program::kPurposeCount; ++p) {
    if (first.exposed[p] + first.background[p] < 1e-4) continue;
    std::printf(" %s %.3f of %.3f s", Name(static_cast<program::Purpose>(p)), first.exposed[p],
                first.background[p]);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("The share of a data-parallel step that is communication which nothing hides");
  app.add_flag("--quick", options.quick, "A model of 3 M parameters instead of 124 M");
  app.add_flag("--untied", options.untied, "The head has a table of its own");
  app.add_flag("--waits", options.waits, "Also list the longest waits of a step");
  app.add_flag("!--no-pin", options.pin, "Let the operating system choose cores");
  app.add_option("--blocks", options.blocks,
                 "Of steps as they are, and as many without communication");
  app.add_option("--steps", options.steps, "Measured steps of a block");
  app.add_option("--sequence", options.sequence, "Tokens of a sequence");
  app.add_option("--micro-batches", options.micro_batches, "Sequences per rank and step");
  app.add_option("--prefetch-mib", options.prefetch_mib,
                 "zero3: gathered beyond what one use needs; -1: what its neighbour needs");
  app.add_option("--shard", options.only, "Only this one")
      ->check(CLI::IsMember({"none", "zero1", "zero3"}));
  CLI11_PARSE(app, argc, argv);
  void* const memory = mmap(nullptr, kRanks * sizeof(Measured), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  std::printf("%-6s %8s %8s %9s %10s %10s %10s %10s %10s\n", "shard", "step s", "without",
              "exposed", "recorded", "predicted", "cpu s", "compute s", "without");
  std::fflush(stdout);
  const std::pair<const char*, program::ShardLevel> levels[] = {
      {"none", program::ShardLevel::kNone},
      {"zero1", program::ShardLevel::kOptimizer},
      {"zero3", program::ShardLevel::kParameters}};
  for (const auto& [name, level] : levels) {
    if (!options.only.empty() && options.only != name) continue;
    auto* const ranks = new (memory) Measured[kRanks];
    const auto results = collectives::RunInProcesses(
        {}, kRanks,
        [&, level = level](Communicator& communicator) {
          return RankBench(options, level, communicator).Run(ranks[communicator.rank()]);
        },
        kMostSeconds);
    for (const absl::Status& status : results) {
      if (status.ok()) continue;
      std::fprintf(stderr, "%s: %s\n", name, status.ToString().c_str());
      return 1;
    }
    Report(name, ranks);
  }
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
