#include "worker/trainer/step_costs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/gpu_standin.h"
#include "common/host_name.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "kernels/isa.h"
#include "planner/cost/device_cost_model.h"
#include "planner/cost/disk_choice.h"
#include "planner/cost/profile_cost_model.h"
#include "planner/job/job_plan.h"

namespace strata::worker {

namespace {

absl::StatusOr<const v1::RankProfile*> RanksOf(const v1::TrainerTask& task) {
  return planner::FindRanks(task.profile(), {.host = common::HostName(),
                                             .isa = kernels::IsaName(),
                                             .ranks = task.ranks(),
                                             .threads = task.threads()});
}

absl::StatusOr<const v1::DeviceProfile*> DeviceOf(const v1::TrainerTask& task) {
  return planner::FindDevice(task.profile(), {.host = common::HostName(),
                                              .device = task.job().resources().device(),
                                              .standin = common::UsesGpuStandin()});
}

// None: the job keeps nothing on SSD.
absl::StatusOr<std::optional<v1::DiskRate>> DisksOf(const v1::TrainerTask& task) {
  std::vector<std::string> directories;
  for (const v1::SsdPath& path : task.job().memory().ssd()) directories.push_back(path.path());
  if (directories.empty()) return std::nullopt;
  const int64_t sharing = std::max<int64_t>(1, task.ranks_on_node());
  return planner::ChooseDiskRate(task.profile(), directories, sharing);
}

// Of costs that CostsOf found.
std::string NameOfProfile(const v1::TrainerTask& task) {
  if (!planner::OnAccelerator(task.job())) return "the profile of this machine (strata calibrate)";
  const auto device = DeviceOf(task);
  return device.ok() ? planner::DescribeTimes(**device, task.ranks()) : "";
}

absl::StatusOr<std::unique_ptr<program::CostModel>> MeasuredCostsOf(const v1::TrainerTask& task) {
  if (!task.has_profile()) return std::unique_ptr<program::CostModel>();
  const absl::StatusOr<const v1::RankProfile*> ranks = RanksOf(task);
  if (!planner::OnAccelerator(task.job())) {
    RETURN_IF_ERROR(ranks.status());
    ASSIGN_OR_RETURN(const std::optional<v1::DiskRate> disks, DisksOf(task));
    return std::make_unique<planner::ProfileCostModel>(**ranks, disks ? &*disks : nullptr);
  }
  ASSIGN_OR_RETURN(const v1::DeviceProfile* const device, DeviceOf(task));
  ASSIGN_OR_RETURN(const std::optional<v1::DiskRate> disks, DisksOf(task));
  return std::make_unique<planner::DeviceCostModel>(
      *device, planner::BesideDevice{.host = ranks.ok() ? *ranks : nullptr,
                                     .disks = disks ? &*disks : nullptr,
                                     .usual = planner::OrdinaryRates(/*accelerator=*/true)});
}

}  // namespace

absl::StatusOr<planner::NamedCosts> CostsOf(const v1::TrainerTask& task) {
  absl::StatusOr<std::unique_ptr<program::CostModel>> measured = MeasuredCostsOf(task);
  if (measured.ok() && *measured != nullptr) {
    return planner::NamedCosts{*std::move(measured), NameOfProfile(task)};
  }
  if (planner::OnAccelerator(task.job())) {
    planner::NamedCosts known =
        planner::CatalogCostsOf(planner::Catalog::Shipped(), task.job(), common::UsesGpuStandin());
    if (known.model != nullptr) return known;
  }
  RETURN_IF_ERROR(measured.status());
  return planner::NamedCosts();
}

planner::NamedCosts BestCostsOf(const v1::TrainerTask& task) {
  absl::StatusOr<planner::NamedCosts> measured = CostsOf(task);
  if (measured.ok() && measured->model != nullptr) return *std::move(measured);
  return {std::make_unique<program::RateCostModel>(
              planner::OrdinaryRates(planner::OnAccelerator(task.job()))),
          measured.ok()
              ? "assumed rates: this machine has not been measured (strata calibrate)"
              : absl::StrCat("assumed rates: ", std::string(measured.status().message()))};
}

namespace {

std::string StreamText(const planner::StreamChoice& choice) {
  auto [resident, moved] = choice.chosen.streaming;
  if (resident == program::Streaming::kOneUse) return "what one use at a time needs";
  if (resident == program::Streaming::kAllButOne) resident = choice.layers - 1;
  return absl::StrCat("{resident: ", resident, ", moved: ", moved, "} of ", choice.layers,
                      " layers");
}

std::string SecondsAndBytes(const planner::StreamChoice::Look& look) {
  return absl::StrCat(common::FormatShortSeconds(look.seconds), " a step and ",
                      common::FormatBytes(static_cast<double>(look.device_bytes)));
}

}  // namespace

void TellStreaming(const v1::TrainerTask& task, const planner::StreamChoice& choice,
                   v1::JobPlan& plan) {
  const planner::StreamChoice::Look& chosen = choice.chosen;
  std::string text = absl::StrCat("memory.stream: auto is ", StreamText(choice), ": ");
  if (choice.limited) {
    absl::StrAppend(&text, "as much as memory.device allows, ",
                    common::FormatBytes(static_cast<double>(chosen.device_bytes)));
  } else {
    if (chosen.streaming == choice.most.streaming) {
      absl::StrAppend(&text, "fewer resident layers would take more than ",
                      100 * planner::kStreamSlowDown, " % longer");
    } else {
      absl::StrAppend(&text, "the fewest resident layers that take at most ",
                      100 * planner::kStreamSlowDown, " % longer than all but one (",
                      SecondsAndBytes(choice.most), ")");
    }
    absl::StrAppend(&text, "; ", SecondsAndBytes(chosen), " of the device are predicted, ",
                    common::FormatShortSeconds(chosen.stall_seconds),
                    " of the step waiting for other tiers, by ", BestCostsOf(task).name);
  }
  v1::Notice& notice = *plan.add_notices();
  notice.set_severity(v1::Notice::SEVERITY_INFO);
  notice.set_text(std::move(text));
}

namespace {

constexpr double kWorthTelling = 0.05;  // of a step

// A notice where compute waits long for what moves between tiers.
void TellStall(const program::RankTimeline& rank, v1::JobPlan& plan) {
  const double stall = rank.stall_seconds();
  if (stall < kWorthTelling * rank.step_seconds) return;
  v1::Notice& notice = *plan.add_notices();
  notice.set_severity(v1::Notice::SEVERITY_INFO);
  notice.set_text(absl::StrFormat(
      "of a step's %.3g s, %.3g s (%.0f %%) will be waiting for bytes from other tiers: a larger "
      "train.micro_batch, more resident layers (memory.stream) or less elsewhere (memory.place) "
      "hide more",
      rank.step_seconds, stall, 100 * stall / rank.step_seconds));
}

}  // namespace

absl::Status PredictStep(const v1::TrainerTask& task,
                         const std::vector<const program::ProgramSet*>& stages,
                         const program::Mesh& mesh, v1::JobPlan& plan) {
  const absl::StatusOr<planner::NamedCosts> costs = CostsOf(task);
  if (!costs.ok()) {
    v1::Notice& notice = *plan.add_notices();
    notice.set_severity(v1::Notice::SEVERITY_INFO);
    notice.set_text(
        absl::StrCat("steps are not predicted: ", std::string(costs.status().message())));
    return absl::OkStatus();
  }
  if (costs->model == nullptr) return absl::OkStatus();
  if (planner::OnAccelerator(task.job())) {
    v1::Notice& notice = *plan.add_notices();
    notice.set_severity(v1::Notice::SEVERITY_INFO);
    notice.set_text(absl::StrCat("steps are predicted by ", NameOfProfile(task)));
  }
  ASSIGN_OR_RETURN(const program::Timeline timeline,
                   program::PredictTimeline(stages, "train", mesh, *costs->model));
  plan.set_predicted_seconds(timeline.step_seconds);
  const program::RankTimeline& first = timeline.ranks.front();
  TellStall(first, plan);
  for (int p = 0; p < program::kPurposeCount; ++p) {
    if (first.compute[p] + first.exposed[p] + first.background[p] <= 0) continue;
    v1::PurposeSeconds& seconds = *plan.add_predicted_purposes();
    seconds.set_purpose(Name(static_cast<program::Purpose>(p)));
    seconds.set_predicted_compute_seconds(first.compute[p]);
    seconds.set_predicted_exposed_seconds(first.exposed[p]);
    seconds.set_predicted_background_seconds(first.background[p]);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
