#include "worker/trainer/calibration/calibrate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "planner/cost/profile_cost_model.h"
#include "worker/trainer/calibration/drift.h"
#include "worker/trainer/calibration/link_times.h"
#include "worker/trainer/calibration/op_times.h"
#include "worker/trainer/calibration/reference_steps.h"
#include "worker/trainer/calibration/stub_communicator.h"

namespace strata::worker {
namespace {

// Of one reference step's repetitions, after which there are no more: on slow machines.
constexpr double kEnoughSeconds = 1.5;
// Steps that wait for each other: some together, so many times.
constexpr double kBurstSeconds = 0.25;
constexpr int kBursts = 15;
constexpr int64_t kLargestMessage = 16 << 20, kQuickLargestMessage = 64 << 10;

class Calibration {
 public:
  Calibration(collectives::Communicator& communicator, const CalibrateOptions& options)
      : communicator_(communicator), stub_(&communicator), options_(options) {}

  absl::StatusOr<v1::Profile> Run() {
    ASSIGN_OR_RETURN(world_, communicator_.CreateGroup({0, 1}));
    v1::RankProfile one, two;
    one.set_ranks(1);
    one.set_threads(options_.threads_alone);
    two.set_ranks(2);
    two.set_threads(options_.threads);
    if (first()) {
      Tell("one rank", options_.threads_alone);
      RETURN_IF_ERROR(
          MeasureOps(StepsOfOneRank(options_.threads_alone, options_.quick), nullptr, one));
      MeasureCopies(one);
      device::ThreadPool pool(options_.threads_alone);
      host_copy_rate_ = HostCopyRate(pool, options_.quick);
    }
    RETURN_IF_ERROR(Meet());
    Tell("two ranks", options_.threads);
    RETURN_IF_ERROR(MeasureTwo(two));
    v1::Profile profile;
    if (first()) {
      *profile.add_ranks() = std::move(one);
      *profile.add_ranks() = std::move(two);
      profile.set_host_copy_rate(host_copy_rate_);
    }
    return profile;
  }

 private:
  bool first() const { return communicator_.rank() == 0; }

  void Tell(const char* what, int threads) const {
    if (first()) options_.tell(absl::StrCat("measuring ", what, " x ", threads, " threads"));
  }

  absl::Status Meet() { return RunAlone(communicator_, {.group = world_}); }

  // Interference comes before engines, as they take the communicator.
  absl::Status MeasureTwo(v1::RankProfile& profile) {
    RETURN_IF_ERROR(MeasureInterference(communicator_, world_,
                                        StepBesideMessages(options_.threads, options_.quick),
                                        options_.quick ? 0.02 : 0.75, profile));
    std::vector<ReferenceStep> steps = StepsOfOneRank(options_.threads, options_.quick);
    RETURN_IF_ERROR(MeasureOps(steps, nullptr, profile));
    MeasureCopies(profile);
    stub_.SetStubbed(true);
    RETURN_IF_ERROR(MeasureOps(StepsOfTwoRanks(options_.threads, options_.quick), &stub_, profile));
    stub_.SetStubbed(false);
    RETURN_IF_ERROR(MeasureThroughEngine(profile));
    ASSIGN_OR_RETURN(const double drift, MeasureDrift(profile));
    profile.set_drift(drift);
    return absl::OkStatus();
  }

  // As steps have it, by the lane of an engine.
  absl::Status MeasureThroughEngine(v1::RankProfile& profile) {
    device::ThreadPool pool(options_.threads);
    const std::vector<ReferenceStep> steps = StepsOfTwoRanks(options_.threads, /*quick=*/true);
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRank> rank,
                     TrainingRank::Create(steps.front().spec, &communicator_, &pool));
    const RunOperation run = [&](const collectives::Operation& operation) {
      return rank->engine().RunCollective(operation);
    };
    return MeasureLinks(run, world_, communicator_.rank(),
                        options_.quick ? kQuickLargestMessage : kLargestMessage,
                        options_.quick ? 3 : 11, profile);
  }

  // The mean over steps of several sizes and layouts. The profile has what their collectives take.
  absl::StatusOr<double> MeasureDrift(const v1::RankProfile& profile) {
    const planner::ProfileCostModel costs(profile);
    std::vector<double> found;
    for (const ReferenceStep& step : StepsOfTwoRanks(options_.threads, options_.quick)) {
      // What a stage of a pipeline waits for is the other's work.
      if (step.spec.plan.groups.pipeline > 1) continue;
      ASSIGN_OR_RETURN(const std::vector<Waits> waits, MeasureWaits(step.spec, costs));
      found.push_back(DriftOf(waits));
    }
    return std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
  }

  // Of both ranks together, as who is early waits for who is late, by so many steps that bursts of
  // what else the machine does are in all of them.
  absl::StatusOr<std::vector<Waits>> MeasureWaits(const TrainingSpec& spec,
                                                  const planner::ProfileCostModel& costs) {
    RETURN_IF_ERROR(Meet());
    device::ThreadPool pool(spec.threads);
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRank> rank,
                     TrainingRank::Create(spec, &communicator_, &pool));
    RETURN_IF_ERROR(rank->Step());  // touches what there is
    const double begin = clock_.Now();
    RETURN_IF_ERROR(rank->Step());
    ASSIGN_OR_RETURN(const std::vector<double> seconds, OfBoth(*rank, {clock_.Now() - begin}));
    const double each = std::max(seconds[0], seconds[1]);
    const int bursts = options_.quick ? 1 : kBursts;
    const int traced = static_cast<int>(rank->trace().size()) / rank->engine().actions(0);
    const int together =
        std::max(1, std::min(static_cast<int>(kBurstSeconds / each), traced / bursts - 1));
    const int steps = together * bursts;
    for (int i = 0; i < steps; ++i) RETURN_IF_ERROR(rank->Step());
    RETURN_IF_ERROR(rank->engine().Drain());
    const std::vector<Waits> own =
        WaitsForOthers(rank->engine().programs(), rank->trace(), /*first_step=*/2, steps, costs);
    std::vector<double> numbers;
    for (const Waits& step : own) numbers.insert(numbers.end(), {step.seconds, step.roots});
    ASSIGN_OR_RETURN(const std::vector<double> both, OfBoth(*rank, numbers));
    std::vector<Waits> sums(steps / together);
    for (size_t i = 0; i < both.size(); i += 2) {
      Waits& sum = sums[i / 2 % steps / together];
      sum.seconds += both[i];
      sum.roots += both[i + 1];
    }
    return sums;
  }

  // Rank 0's numbers, then as many of rank 1.
  absl::StatusOr<std::vector<double>> OfBoth(TrainingRank& rank, const std::vector<double>& own) {
    std::vector<double> both(2 * own.size());
    RETURN_IF_ERROR(rank.engine().RunCollective({.kind = collectives::OpKind::kAllGather,
                                                 .group = world_,
                                                 .type = collectives::DataType::kF64,
                                                 .count = static_cast<int64_t>(own.size()),
                                                 .in = own.data(),
                                                 .out = both.data()}));
    return both;
  }

  // Both ranks run the same steps at the same time, if both call it.
  absl::Status MeasureOps(const std::vector<ReferenceStep>& steps,
                          collectives::Communicator* communicator, v1::RankProfile& profile) {
    OpTimes times;
    std::vector<double> between;  // seconds per op that are neither the op's nor a wait's
    for (const ReferenceStep& step : steps) {
      if (profile.ranks() > 1) RETURN_IF_ERROR(Meet());
      device::ThreadPool pool(step.spec.threads);
      ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRank> rank,
                       TrainingRank::Create(step.spec, communicator, &pool));
      RETURN_IF_ERROR(rank->Step());  // touches what there is
      const double begin = clock_.Now();
      for (int i = 0; i < step.repetitions; ++i) {
        if (i > 0 && clock_.Now() - begin > kEnoughSeconds) break;
        RETURN_IF_ERROR(rank->Step());
        const StepMetrics& metrics = rank->engine().metrics();
        const double busy = std::accumulate(metrics.compute.begin(), metrics.compute.end(), 0.0);
        const double left = metrics.total - busy - metrics.exposed_communication();
        between.push_back(left / std::max(rank->engine().actions(0), 1));
      }
      RETURN_IF_ERROR(rank->engine().Drain());
      times.Add(rank->engine().programs(), rank->trace(), /*first_step=*/1);
    }
    times.Write(profile);
    // Where something communicates, a wait's end is not the end of what it waited for.
    if (communicator == nullptr) profile.set_action_seconds(std::max(Median(between), 0.0));
    return absl::OkStatus();
  }

  collectives::Communicator& communicator_;
  StubCommunicator stub_;
  const CalibrateOptions& options_;
  collectives::GroupId world_;
  double host_copy_rate_ = 0;
  const common::MonotonicClock clock_;
};

}  // namespace

absl::StatusOr<v1::Profile> Calibrate(collectives::Communicator& communicator,
                                      const CalibrateOptions& options) {
  FlushDenormals();
  return Calibration(communicator, options).Run();
}

}  // namespace strata::worker
