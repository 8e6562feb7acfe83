#include "planner/search/offload_choices.h"

namespace strata::planner {
namespace {

bool HasHost(const Network& network) { return network.host_rate > 0 && !network.host_is_device; }

}  // namespace

std::vector<OffloadChoice> OffloadChoices(const Network& network) {
  if (!HasHost(network)) return {{}};
  std::vector<OffloadChoice> choices = {
      {}, {Offload::kOptimizer}, {Offload::kActivations}, {Offload::kAll}};
  if (!network.coherent) return choices;
  choices.push_back({Offload::kOptimizer, true});
  choices.push_back({Offload::kAll, true});
  return choices;
}

std::vector<OffloadChoice> FartherOffloadChoices(const Network& network) {
  if (!HasHost(network)) return {};
  return {{Offload::kGradients},
          {Offload::kGradients | Offload::kActivations},
          {Offload::kParameters},
          {Offload::kParameters | Offload::kActivations}};
}

}  // namespace strata::planner
