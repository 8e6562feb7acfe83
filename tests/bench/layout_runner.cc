#include "tests/bench/layout_runner.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/process_world.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "program/ir/mesh.h"
#include "program/passes/expand.h"
#include "tests/bench/step_trace.h"
#include "worker/engine/communication_binding.h"
#include "worker/trainer/calibration/link_times.h"
#include "worker/trainer/calibration/op_times.h"
#include "worker/trainer/calibration/stub_communicator.h"

namespace strata::bench {
namespace {

using collectives::Communicator;
using worker::StepMetrics;

constexpr unsigned kMostSeconds = 1800;
constexpr int kLinkRepetitions = 8;

std::vector<int> AllowedProcessors() {
  cpu_set_t allowed;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return found;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) found.push_back(processor);
  }
  return found;
}

// The calling thread and those it makes.
void PinTo(int processor) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(processor, &own);
  sched_setaffinity(0, sizeof(own), &own);
}

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

class RankRun {
 public:
  RankRun(const TrainingSpec& spec, const RunOptions& options, Communicator& communicator)
      : spec_(spec), options_(options), real_(&communicator), stub_(&communicator) {}

  absl::Status Run(Measured& result) {
    worker::FlushDenormals();
    device::ThreadPool pool(spec_.threads);
    std::vector<int> world(real_->size());
    std::iota(world.begin(), world.end(), 0);
    ASSIGN_OR_RETURN(world_, stub_.CreateGroup(world));
    ASSIGN_OR_RETURN(rank_, TrainingRank::Create(spec_, &stub_, &pool));
    if (real_->size() > 1) RETURN_IF_ERROR(MeasureLink(result.rates));
    if (options_.throttle.on()) {
      result.rates.link_bytes_per_second = options_.throttle.bytes_per_second;
      result.rates.link_latency_seconds = options_.throttle.latency_seconds;
    }
    Steps real, stubbed;
    for (int block = 0; block < options_.blocks; ++block) {
      RETURN_IF_ERROR(RunBlock(false, real));
      if (options_.waits && block == 0 && real_->rank() == 0) {
        PrintWaits(rank_->engine(), rank_->trace());
      }
      RETURN_IF_ERROR(RunBlock(true, stubbed));
    }
    MeasureOps(result.rates);
    Summarise(real, stubbed, result);
    return Predict(result);
  }

 private:
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
    const int size = real_->size();
    const worker::RunOperation run = [this](const collectives::Operation& operation) {
      return rank_->engine().RunCollective(operation);
    };
    ASSIGN_OR_RETURN(rates.link_latency_seconds,
                     worker::AllReduceSeconds(run, world_, size, 1, kLinkRepetitions));
    ASSIGN_OR_RETURN(const double whole,
                     worker::AllReduceSeconds(run, world_, size, kMost, kLinkRepetitions));
    rates.link_bytes_per_second = 2.0 * (size - 1) / size * kMost * 4 / whole;
    return absl::OkStatus();
  }

  // Of the latest step, which had no communication beside it.
  void MeasureOps(program::Rates& rates) const {
    int64_t latest = 0;
    for (const worker::TraceRecord& record : rank_->trace()) {
      latest = std::max(latest, record.step);
    }
    worker::OpTimes times;
    times.Add(rank_->engine().programs(), rank_->trace(), latest);
    times.SetRates(rates);
  }

  static void Summarise(const Steps& real, const Steps& stubbed, Measured& result) {
    result.step = Median(real.seconds);
    result.stubbed = Median(stubbed.seconds);
    result.compute = Median(stubbed.compute);
    result.processor = Median(real.processor) - Median(stubbed.processor);
    result.recorded = Median(real.recorded);
    for (int p = 0; p < program::kPurposeCount; ++p) {
      result.exposed[p] = Median(real.exposed[p]);
      result.background[p] = Median(real.background[p]);
    }
  }

  absl::Status Predict(Measured& result) const {
    if (real_->rank() != 0) return absl::OkStatus();
    const program::RateCostModel costs(result.rates);
    const program::Mesh mesh{.sizes = spec_.plan.groups};
    ASSIGN_OR_RETURN(const std::vector<program::StagePrograms> stages, ComposeTraining(spec_));
    std::vector<const program::ProgramSet*> sets;
    for (const program::StagePrograms& stage : stages) sets.push_back(&stage.set);
    ASSIGN_OR_RETURN(const program::Timeline timeline,
                     program::PredictTimeline(sets, "train", mesh, costs));
    result.predicted = timeline.step_seconds;
    result.predicted_exposed = timeline.ranks[0].exposed_seconds;
    const program::ProgramSet& own = rank_->engine().programs();
    const program::ExpandedProgram expanded = program::Expand(own, own.programs.front());
    for (const program::Action& action : expanded.actions) {
      const program::Communication& what = action.communication;
      if (action.mechanism == program::Mechanism::kCollective) {
        result.communication += costs.CollectiveSeconds(what, {.ranks = own.groups.of(what.group)});
      } else if (action.mechanism == program::Mechanism::kSend) {
        result.communication += costs.MessageSeconds(what, {});
      }
    }
    return absl::OkStatus();
  }

  const TrainingSpec& spec_;
  const RunOptions& options_;
  Communicator* const real_;
  worker::StubCommunicator stub_;
  collectives::GroupId world_;
  std::unique_ptr<TrainingRank> rank_;
  const common::MonotonicClock clock_;
};

std::vector<absl::Status> RunOnThreads(const RunOptions& options, int size,
                                       const std::function<absl::Status(Communicator&)>& body) {
  const auto world = collectives::LoopbackWorld(size, 64, options.throttle);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(*world[rank]);
      if (results[rank].ok()) return;
      for (const auto& other : world) other->Cancel(absl::AbortedError("another rank failed"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

absl::StatusOr<Measured> RunLayout(const TrainingSpec& spec, const RunOptions& options) {
  const int size = program::Mesh{.sizes = spec.plan.groups}.ranks();
  const size_t bytes = size * sizeof(Measured);
  // What ranks measured lies in memory that processes share.
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return absl::ResourceExhaustedError("no memory to share");
  auto* const ranks = new (memory) Measured[size];
  const std::vector<int> processors = AllowedProcessors();
  const auto body = [&](Communicator& communicator) {
    const bool each_has_one = static_cast<int>(processors.size()) >= size * spec.threads;
    if (options.pin && spec.threads == 1 && each_has_one) PinTo(processors[communicator.rank()]);
    return RankRun(spec, options, communicator).Run(ranks[communicator.rank()]);
  };
  const std::vector<absl::Status> results =
      options.throttle.on() ? RunOnThreads(options, size, body)
                            : collectives::RunInProcesses(options.transport, size, body,
                                                          {.most_seconds = kMostSeconds});
  Measured measured = ranks[0];
  for (int r = 0; r < size; ++r) {
    measured.step = std::max(measured.step, ranks[r].step);
    measured.stubbed = std::max(measured.stubbed, ranks[r].stubbed);
  }
  munmap(memory, bytes);
  for (const absl::Status& status : results) RETURN_IF_ERROR(status);
  return measured;
}

absl::StatusOr<double> PredictedStep(const TrainingSpec& spec, const program::Rates& rates) {
  ASSIGN_OR_RETURN(const std::vector<program::StagePrograms> stages, ComposeTraining(spec));
  std::vector<const program::ProgramSet*> sets;
  for (const program::StagePrograms& stage : stages) sets.push_back(&stage.set);
  ASSIGN_OR_RETURN(const program::Timeline timeline,
                   program::PredictTimeline(sets, "train", {.sizes = spec.plan.groups},
                                            program::RateCostModel(rates)));
  return timeline.step_seconds;
}

TrainingSpec SpecOf(const model::ModelSpec& model, const program::GroupSizes& groups,
                    program::ShardLevel level, int64_t sequence, int64_t micro_batch,
                    int64_t global_batch) {
  TrainingSpec spec;
  spec.model = model;
  spec.emit = {.micro_batch = micro_batch, .sequence = sequence, .prefill_chunk = 0};
  spec.emit.tensor_degree = groups.tensor;
  spec.emit.context_ranks = groups.context;
  spec.plan.groups = groups;
  spec.plan.shard = level;
  if (level != program::ShardLevel::kNone) spec.plan.groups.shard = groups.data;
  // Off where every micro-batch is reduced.
  spec.plan.virtual_shards = level == program::ShardLevel::kParameters ? 0 : groups.data;
  spec.plan.global_batch = global_batch;
  spec.plan.gradient_clip = 1;
  spec.plan.scratch = worker::CollectiveScratchBytes;
  return spec;
}

}  // namespace strata::bench
