// What `strata plan` is asked about: a model, devices and their network, as the search has it.
#ifndef STRATA_CLIENT_PLANNING_PLAN_REQUEST_H_
#define STRATA_CLIENT_PLANNING_PLAN_REQUEST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "planner/fit/devices.h"
#include "planner/fit/presets.h"
#include "planner/search/saved_names.h"
#include "planner/search/search.h"
#include "topology/cluster.h"

namespace strata::client {

// One search of those that `--vary` asks for; without it there is one, with no settings.
struct PlanQuestion {
  std::string settings;  // "links.zone.oversubscription=7 domain=72"
  planner::SearchRequest request;
  planner::FitDevice card;  // as memory reports have it; without bytes: they do not know it
  std::string gpu;          // the catalog's name
  std::string calibration;  // what the times were calibrated with
  double price_per_device_hour = 0;                  // 0: not known
  std::shared_ptr<const topology::Cluster> cluster;  // null: no topology was given
  std::string kind;                                  // of its devices that are meant
};

struct LoadedPlan {
  planner::FitModel model;
  std::string network;
  planner::SavedNames saved_names;
  std::string software;   // whose steps are predicted
  std::string notice;     // what the user should know; empty: nothing
  double run_tokens = 0;  // of the whole run; 0: not said
  std::vector<PlanQuestion> questions;
};

// InvalidArgument, naming the flag, what is wrong and what to do.
absl::StatusOr<LoadedPlan> LoadPlan(const Arguments& arguments);

std::vector<Flag> PlanFlags();

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_PLAN_REQUEST_H_
