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

}  // namespace

absl::StatusOr<v1::JobPlan> PlanCalibration(const TaskContext& context) {
  if (context.task.ranks() != 2) {
    return absl::InvalidArgumentError("a calibration has two ranks");
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
  CalibrateOptions options;
  options.threads = context.task.threads();
  options.threads_alone = static_cast<int>(context.task.request().threads_alone());
  options.quick = context.task.request().quick();
  options.tell = [&](const std::string& text) {
    context.control->Notice(v1::Notice::SEVERITY_INFO, text);
  };
  absl::StatusOr<v1::Profile> profile = Calibrate(*communicator, options);
  // What it calls is gone before the communicator is.
  context.control->SetCancel(nullptr);
  RETURN_IF_ERROR(profile.status());
  if (context.task.rank() != 0) return absl::OkStatus();
  for (const v1::DiskProfile& disk : context.task.request().profile().disks()) {
    options.tell(absl::StrCat("measuring the disk of ", disk.directory()));
    ASSIGN_OR_RETURN(*profile->add_disks(), MeasureDisk(disk.directory(), options.quick));
  }
  profile->set_host(common::HostName());
  profile->set_cpu(CpuName());
  profile->set_isa(kernels::IsaName());
  profile->set_build(context.build);
  profile->set_measured_at(static_cast<int64_t>(common::WallSeconds()));
  v1::TrainerEvent event;
  *event.mutable_profile() = *std::move(profile);
  context.control->Send(event);
  return absl::OkStatus();
}

}  // namespace strata::worker
