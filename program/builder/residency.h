// Residency: which layers' parameters are on the device when, in a window of k slots of which k′
// are filled at once.
//
// One plan serves gathering from peers (ZeRO-3; Rajbhandari et al., SC 2020), fetching from host or
// SSD (ZeRO-Infinity, SC 2021) and layer streaming (Superpipeline: k resident, k′ moved): they
// differ in where a fetch comes from.
#ifndef STRATA_PROGRAM_BUILDER_RESIDENCY_H_
#define STRATA_PROGRAM_BUILDER_RESIDENCY_H_

#include <vector>

namespace strata::program {

struct Fetch {
  int use = 0;  // the first use it serves
  int layer = 0;
  int place = 0;  // slot of the window
};

struct ResidencyPlan {
  std::vector<int> place_of_use;  // per use: the window slot its layer is in
  std::vector<std::vector<Fetch>>
      before;  // per use: fetches to begin before it, so far ahead as the window allows
};

// `uses`: layers in the order in which a step uses them. A layer still in the window is not fetched
// again; otherwise the slot used longest ago is refilled, as soon as its last use is over. `moved`
// consecutive fetches begin together, when the last of their slots is free. Requires 1 <= moved <=
// resident.
ResidencyPlan PlanResidency(const std::vector<int>& uses, int resident, int moved);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_RESIDENCY_H_
