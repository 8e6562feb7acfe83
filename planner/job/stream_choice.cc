#include "planner/job/stream_choice.h"

#include <algorithm>
#include <vector>

#include "common/status_macros.h"
#include "program/compose/within_limit.h"

namespace strata::planner {
namespace {

using program::Streaming;
using Look = StreamChoice::Look;

class Chooser {
 public:
  Chooser(const program::Decision& decision, const program::UpdateEmitter& update,
          const program::CostModel& costs)
      : decision_(decision), update_(update), costs_(costs) {}

  absl::StatusOr<StreamChoice> Run() {
    StreamChoice choice{.layers = static_cast<int>(decision_.graph.layers.size())};
    const int64_t limit = decision_.plan.device_limit;
    choice.limited = limit > 0;
    if (choice.limited) {
      ASSIGN_OR_RETURN(choice.chosen, MostWithin(choice.layers, limit));
    } else {
      ASSIGN_OR_RETURN(choice.most, LookAt({.resident = Streaming::kAllButOne}));
      ASSIGN_OR_RETURN(choice.chosen, Least(choice.layers, choice.most));
    }
    return choice;
  }

 private:
  absl::StatusOr<Look> MostWithin(int layers, int64_t limit) {
    const auto fits = [&](int resident) -> absl::StatusOr<bool> {
      RETURN_IF_ERROR(Compose({.resident = resident}));
      return DeviceBytes() <= limit;
    };
    ASSIGN_OR_RETURN(const int resident, program::MostResident(layers, fits));
    RETURN_IF_ERROR(Compose({.resident = resident}));
    return Look{.streaming = {.resident = resident}, .device_bytes = DeviceBytes()};
  }

  // Of those that are fast enough. Doubles until one is, then halves the distance.
  absl::StatusOr<Look> Least(int layers, const Look& most) {
    const double enough = (1 + kStreamSlowDown) * most.seconds;
    Look least = most;
    int slow = 0, fast = layers - 1;
    for (int tried = 1; slow + 1 < fast;
         tried = fast < layers - 1 ? (slow + fast) / 2 : std::min(2 * slow, fast - 1)) {
      ASSIGN_OR_RETURN(const Look look, LookAt({.resident = tried}));
      if (look.seconds > enough) {
        slow = tried;
        continue;
      }
      fast = tried;
      if (look.device_bytes < least.device_bytes) least = look;
    }
    return least;
  }

  absl::StatusOr<Look> LookAt(Streaming streaming) {
    RETURN_IF_ERROR(Compose(streaming));
    std::vector<const program::ProgramSet*> sets;
    for (const program::StagePrograms& stage : stages_) sets.push_back(&stage.set);
    ASSIGN_OR_RETURN(const program::Timeline timeline,
                     program::PredictTimeline(
                         sets, "train", program::Mesh{.sizes = decision_.plan.groups}, costs_));
    const auto slowest = std::max_element(
        timeline.ranks.begin(), timeline.ranks.end(),
        [](const auto& a, const auto& b) { return a.step_seconds < b.step_seconds; });
    return Look{.streaming = streaming,
                .seconds = timeline.step_seconds,
                .stall_seconds = slowest->stall_seconds(),
                .device_bytes = DeviceBytes()};
  }

  absl::Status Compose(Streaming streaming) {
    program::Decision with = decision_;
    with.plan.streaming = streaming;
    stages_.clear();
    for (int stage = 0; stage < decision_.plan.groups.pipeline; ++stage) {
      ASSIGN_OR_RETURN(program::StagePrograms made, program::ComposeStage(with, stage, update_));
      stages_.push_back(std::move(made));
    }
    return absl::OkStatus();
  }

  int64_t DeviceBytes() const {
    int64_t most = 0;
    for (const program::StagePrograms& stage : stages_) {
      most = std::max(most, stage.set.arena(program::Tier::kDevice));
    }
    return most;
  }

  const program::Decision& decision_;
  const program::UpdateEmitter& update_;
  const program::CostModel& costs_;
  std::vector<program::StagePrograms> stages_;
};

}  // namespace

program::Rates OrdinaryRates(bool accelerator) {
  if (!accelerator) return {};
  return {.flops_per_second = 3e14,
          .memory_bytes_per_second = 2e12,
          .link_bytes_per_second = 1e11,
          .transfer_bytes_per_second = 2.5e10};
}

absl::StatusOr<std::optional<StreamChoice>> ChooseStreaming(const program::Decision& decision,
                                                            const program::UpdateEmitter& update,
                                                            const program::CostModel& costs) {
  const program::Plan& plan = decision.plan;
  if (!plan.places.parameters.beyond_device() || plan.streaming.resident != 0) return std::nullopt;
  ASSIGN_OR_RETURN(StreamChoice choice, Chooser(decision, update, costs).Run());
  return choice;
}

}  // namespace strata::planner
