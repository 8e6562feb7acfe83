#include "worker/trainer/calibration/device_calibration.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "device/thread_pool.h"
#include "worker/trainer/calibration/action_times.h"
#include "worker/trainer/calibration/device_link_times.h"
#include "worker/trainer/calibration/head_start.h"
#include "worker/trainer/calibration/link_times.h"
#include "worker/trainer/calibration/op_times.h"
#include "worker/trainer/calibration/reference_steps.h"
#include "worker/trainer/calibration/stub_accelerator.h"

namespace strata::worker {
namespace {

// Of one reference step's repetitions, after which there are no more: on slow devices.
constexpr double kEnoughSeconds = 1.5;

std::string Describe(const TrainingSpec& spec) {
  return absl::StrCat("a step of ", spec.emit.micro_batch, " x ", spec.emit.sequence,
                      " tokens of width ", spec.model.hidden, " in ", Name(spec.emit.type));
}

class DeviceCalibration {
 public:
  DeviceCalibration(collectives::Communicator& communicator, const DeviceCalibrateOptions& options)
      : communicator_(communicator), options_(options) {}

  absl::StatusOr<v1::DeviceProfile> Run() {
    ASSIGN_OR_RETURN(world_, communicator_.CreateGroup({0, 1}));
    v1::DeviceProfile profile;
    double both = 0;
    if (communicator_.rank() == 0) {
      RETURN_IF_ERROR(MeasureAlone(profile));
    } else {
      both = options_.open(1, nullptr).ok() ? 1 : 0;
    }
    RETURN_IF_ERROR(RunAlone(communicator_, {.kind = collectives::OpKind::kBroadcast,
                                             .group = world_,
                                             .type = collectives::DataType::kF64,
                                             .count = 1,
                                             .in = &both,
                                             .out = &both,
                                             .peer = 1}));
    if (both == 0) {
      options_.tell("one device is here: what passes between two is not measured");
      return profile;
    }
    options_.tell("measuring two devices");
    RETURN_IF_ERROR(MeasureBoth(profile));
    return profile;
  }

 private:
  absl::Status MeasureAlone(v1::DeviceProfile& profile) {
    options_.tell("measuring steps on the device");
    for (const ReferenceStep& step : StepsOfDevice(options_.quick)) {
      RETURN_IF_ERROR(MeasureIfItFits(step, /*of_two=*/false, profile));
    }
    for (const ReferenceStep& step : StepsOfTwoDevices(options_.quick)) {
      RETURN_IF_ERROR(MeasureIfItFits(step, /*of_two=*/true, profile));
    }
    v1::RankProfile measured;
    times_.Write(measured);
    profile.mutable_ops()->Swap(measured.mutable_ops());
    profile.set_action_seconds(std::max(Median(between_), 0.0));
    options_.tell("measuring copies between host and device");
    ASSIGN_OR_RETURN(const std::unique_ptr<Accelerator> accelerator, options_.open(0, nullptr));
    return MeasureDeviceCopies(accelerator->device(), options_.quick, profile);
  }

  absl::Status MeasureIfItFits(const ReferenceStep& step, bool of_two, v1::DeviceProfile& profile) {
    const absl::Status status = MeasureStep(step, of_two, profile);
    if (!absl::IsResourceExhausted(status)) return status;
    options_.tell(absl::StrCat(Describe(step.spec), " is left out: ", status.message()));
    return absl::OkStatus();
  }

  // A device of its own each time: its streams live as long as it, and there are only so many.
  absl::Status MeasureStep(const ReferenceStep& step, bool of_two, v1::DeviceProfile& profile) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Accelerator> accelerator, options_.open(0, nullptr));
    ASSIGN_OR_RETURN(const double busy, MeasureActions(step, *accelerator));
    profile.set_remark(accelerator->Remark());
    if (of_two) return absl::OkStatus();  // without communication the whole says nothing
    ASSIGN_OR_RETURN(const double whole, MeasureWhole(step, *accelerator));
    between_.push_back((whole - busy) / actions_);
    return absl::OkStatus();
  }

  // Seconds of a step's actions, each of them added to what is known of its op.
  absl::StatusOr<double> MeasureActions(const ReferenceStep& step, Accelerator& accelerator) {
    StubAccelerator alone(&accelerator);
    ASSIGN_OR_RETURN(const auto head_start,
                     HeadStart::Create(&accelerator.device(), options_.quick));
    ASSIGN_OR_RETURN(const auto times,
                     ActionTimes::Create(&accelerator.device(), head_start.get()));
    device::ThreadPool pool(1);
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRank> rank,
                     TrainingRank::Create(step.spec, nullptr, &pool,
                                          {.accelerator = &alone, .observer = times.get()}));
    RETURN_IF_ERROR(rank->Step());  // loads kernels
    times->Watch(rank->engine().programs());
    std::vector<double> busy;
    const double begin = clock_.Now();
    for (int i = 0; i < step.repetitions; ++i) {
      if (i > 0 && clock_.Now() - begin > kEnoughSeconds) break;
      RETURN_IF_ERROR(rank->Step());
      RETURN_IF_ERROR(rank->engine().Drain());
      ASSIGN_OR_RETURN(const std::vector<TraceRecord> records, times->Take());
      times_.Add(rank->engine().programs(), records, /*first_step=*/0);
      busy.push_back(
          std::accumulate(records.begin(), records.end(), 0.0,
                          [](double sum, const TraceRecord& record) { return sum + record.end; }));
      actions_ = static_cast<double>(std::max<size_t>(records.size(), 1));
    }
    return Median(std::move(busy));
  }

  // Seconds of a step as jobs run it: with graphs, one after another.
  absl::StatusOr<double> MeasureWhole(const ReferenceStep& step, Accelerator& accelerator) {
    device::ThreadPool pool(1);
    ASSIGN_OR_RETURN(
        const std::unique_ptr<TrainingRank> rank,
        TrainingRank::Create(step.spec, nullptr, &pool, {.accelerator = &accelerator}));
    // The first loads kernels, the next two capture graphs, one for each place of what has two.
    for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(rank->Step());
    std::vector<double> whole;
    const double begin = clock_.Now();
    for (int i = 0; i < step.repetitions; ++i) {
      if (i > 0 && clock_.Now() - begin > kEnoughSeconds) break;
      RETURN_IF_ERROR(rank->Step());
      whole.push_back(rank->engine().metrics().total);
    }
    RETURN_IF_ERROR(rank->engine().Drain());
    return Median(std::move(whole));
  }

  absl::Status MeasureBoth(v1::DeviceProfile& profile) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Accelerator> accelerator,
                     options_.open(communicator_.rank(), &communicator_));
    RETURN_IF_ERROR(
        MeasureDeviceLinks(*accelerator, communicator_, world_, options_.quick, profile));
    return accelerator->CloseCommunication(absl::Seconds(60));
  }

  collectives::Communicator& communicator_;
  const DeviceCalibrateOptions& options_;
  collectives::GroupId world_;
  OpTimes times_;
  std::vector<double> between_;  // seconds per action that are no action's
  double actions_ = 1;           // of the last step
  const common::MonotonicClock clock_;
};

}  // namespace

absl::StatusOr<v1::DeviceProfile> CalibrateDevice(collectives::Communicator& communicator,
                                                  const DeviceCalibrateOptions& options) {
  ASSIGN_OR_RETURN(v1::DeviceProfile profile, DeviceCalibration(communicator, options).Run());
  if (communicator.rank() != 0) profile.Clear();
  return profile;
}

}  // namespace strata::worker
