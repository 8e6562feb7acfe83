#include "planner/search/homes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/job/job_plan.h"

namespace strata::planner {
namespace {

constexpr char kHost[] = "host", kSsd[] = "ssd";

// Layers that are streamed with the least room: one computes while the next comes.
constexpr int64_t kFewestResident = 2;

// The optimizer's state, then what else moves, each with activations there or not.
void AddSteps(const char* tier, bool streams, std::vector<std::vector<Homes>>& steps) {
  const auto both = [&](const Homes& homes, std::vector<Homes>& step) {
    step.push_back(homes);
    step.push_back(homes);
    step.back().elsewhere.emplace_back("activations", tier);
  };
  Homes homes{{{"optimizer", tier}}};
  std::vector<Homes> state;
  both(homes, state);
  if (tier == kHost) state.push_back({{{"activations", tier}}});
  homes.elsewhere.insert(homes.elsewhere.begin(), {"gradients", tier});
  both(homes, state);
  steps.push_back(std::move(state));
  homes.elsewhere.insert(homes.elsewhere.begin(), {"parameters", tier});
  std::vector<Homes> all;
  both(homes, all);
  // `auto` may choose more layers than there is room for: it asks the timeline, not the card.
  if (streams) {
    homes.resident = kFewestResident;
    both(homes, all);
  }
  steps.push_back(std::move(all));
}

}  // namespace

bool LeavesPlacesOpen(const v1::MemorySpec& memory) {
  return memory.automatic() || memory.place().automatic();
}

bool Homes::Moves(const std::string& bytes) const {
  return std::any_of(elsewhere.begin(), elsewhere.end(),
                     [&](const auto& each) { return each.first == bytes; });
}

std::vector<std::vector<Homes>> StepsOfHomes(const v1::JobSpec& job) {
  const v1::MemorySpec& memory = job.memory();
  std::vector<std::vector<Homes>> steps;
  if (!LeavesPlacesOpen(memory)) return steps;
  const bool streams = memory.automatic() || memory.stream().automatic();
  if (OnAccelerator(job) || memory.has_device()) AddSteps(kHost, streams, steps);
  if (memory.ssd().empty()) return steps;
  if (!steps.empty()) {  // there is a host: state on SSD, what each micro-batch moves in memory
    const std::pair<std::string, std::string> gradients{"gradients", kHost};
    const std::pair<std::string, std::string> optimizer{"optimizer", kSsd};
    const std::pair<std::string, std::string> activations{"activations", kHost};
    steps.push_back({{{optimizer}},
                     {{optimizer, activations}},
                     {{gradients, optimizer}},
                     {{gradients, optimizer, activations}}});
  }
  AddSteps(kSsd, streams, steps);
  return steps;
}

std::vector<std::string> SettingsOf(const Homes& homes, const v1::MemorySpec& memory) {
  std::string place = absl::StrJoin(homes.elsewhere, ", ", absl::PairFormatter(": "));
  if (homes.all_on_device()) place = "parameters: device";
  place = absl::StrCat("{", place, "}");
  const std::string stream =
      homes.resident > 0 ? absl::StrCat("{resident: ", homes.resident, ", moved: 1}") : "";
  if (memory.automatic()) {
    if (homes.all_on_device()) return {};  // nothing of the job needs tiers
    return {
        absl::StrCat("memory={place: ", place, stream.empty() ? "" : ", stream: ", stream, "}")};
  }
  std::vector<std::string> settings = {absl::StrCat("memory.place=", place)};
  if (!stream.empty()) settings.push_back(absl::StrCat("memory.stream=", stream));
  return settings;
}

}  // namespace strata::planner
