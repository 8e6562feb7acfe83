#include "worker/trainer/calibrate_task.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/host_name.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "kernels/isa.h"
#include "worker/trainer/calibration/calibrate.h"
#include "worker/trainer/calibration/device_calibration.h"
#include "worker/trainer/calibration/disk_rates.h"
#include "worker/trainer/join.h"
#include "worker/trainer/step_costs.h"

namespace strata::worker {
namespace {

std::string CpuName() {
  for (const auto line : absl::StrSplit(common::TextOf("/proc/cpuinfo"), '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
  }
  return "";
}

// Empty: the CPU.
const std::string& DeviceOf(const TaskContext& context) {
  return context.task.request().job().resources().device();
}

void Tell(const TaskContext& context, const std::string& text) {
  context.control->Notice(v1::Notice::SEVERITY_INFO, text);
}

absl::StatusOr<v1::Profile> CalibrateCpu(const TaskContext& context,
                                         collectives::Communicator& communicator) {
  CalibrateOptions options;
  options.threads = context.task.threads();
  options.threads_alone = static_cast<int>(context.task.request().threads_alone());
  options.quick = context.task.request().quick();
  options.tell = [&](const std::string& text) { Tell(context, text); };
  return Calibrate(communicator, options);
}

absl::StatusOr<v1::Profile> CalibrateGpu(const TaskContext& context,
                                         collectives::Communicator& communicator, int64_t now) {
  const bool first = context.task.rank() == 0, standin = context.parts.standin;
  DeviceCalibrateOptions options;
  std::string name, kind;
  options.open =
      [&](int ordinal,
          collectives::Communicator* ranks) -> absl::StatusOr<std::unique_ptr<Accelerator>> {
    ASSIGN_OR_RETURN(NamedAccelerator made, context.parts.make_accelerator(ordinal, ranks));
    if (name.empty() && first) Tell(context, absl::StrCat("measuring ", made.name));
    name = made.name;
    kind = made.kind;
    return std::move(made.accelerator);
  };
  // The stand-in is too slow for shapes whose times would mean something.
  options.quick = context.task.request().quick() || standin;
  if (first) options.tell = [&](const std::string& text) { Tell(context, text); };
  ASSIGN_OR_RETURN(v1::DeviceProfile device, CalibrateDevice(communicator, options));
  v1::Profile profile;
  if (!first) return profile;
  device.set_name(name);
  device.set_kind(kind.empty() ? DeviceOf(context) : kind);
  device.set_standin(standin);
  device.set_build(context.build);
  device.set_measured_at(now);
  *profile.add_devices() = std::move(device);
  return profile;
}

}  // namespace

absl::StatusOr<v1::JobPlan> PlanCalibration(const TaskContext& context) {
  if (context.task.ranks() != 2) {
    return absl::InvalidArgumentError("a calibration has two ranks");
  }
  if (!DeviceOf(context).empty() && context.parts.make_accelerator == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--device: ", DeviceOf(context), ": this trainer computes on the CPU only"));
  }
  v1::JobPlan plan;
  plan.set_plan_digest(context.build);
  return plan;
}

absl::Status RunCalibration(const TaskContext& context) {
  v1::Prepared prepared;
  prepared.set_plan_digest(context.build);
  prepared.mutable_peers()->add_ranks(1 - context.task.rank());
  ASSIGN_OR_RETURN(const std::unique_ptr<collectives::Communicator> communicator,
                   Join(*context.control, *context.progress, context.task, std::move(prepared)));
  v1::TrainerEvent running;
  running.mutable_running();
  context.control->Send(running);
  const auto now = static_cast<int64_t>(common::WallSeconds());
  absl::StatusOr<v1::Profile> profile = DeviceOf(context).empty()
                                            ? CalibrateCpu(context, *communicator)
                                            : CalibrateGpu(context, *communicator, now);
  // What it calls is gone before the communicator is.
  context.control->SetCancel(nullptr);
  RETURN_IF_ERROR(profile.status());
  if (context.task.rank() != 0) return absl::OkStatus();
  for (const v1::DiskProfile& disk : context.task.request().profile().disks()) {
    Tell(context, absl::StrCat("measuring the disk of ", disk.directory()));
    ASSIGN_OR_RETURN(*profile->add_disks(),
                     MeasureDisk(disk.directory(), context.task.request().quick()));
  }
  profile->set_host(common::HostName());
  profile->set_cpu(CpuName());
  profile->set_isa(kernels::IsaName());
  profile->set_build(context.build);
  profile->set_measured_at(now);
  v1::TrainerEvent event;
  *event.mutable_profile() = *std::move(profile);
  context.control->Send(event);
  return absl::OkStatus();
}

}  // namespace strata::worker
