// Where the bytes of a device may live beyond it, for the closed form's search.
#ifndef STRATA_PLANNER_SEARCH_OFFLOAD_CHOICES_H_
#define STRATA_PLANNER_SEARCH_OFFLOAD_CHOICES_H_

#include <vector>

#include "planner/performance/machine.h"
#include "planner/performance/shape.h"

namespace strata::planner {

struct OffloadChoice {
  Offload offload = Offload::kNone;
  bool unified = false;  // of the optimizer's state
};

// Nothing, the optimizer's state, activations, both; the state in unified memory too where the link
// is coherent. Where host and device are one memory nothing is beyond the device.
std::vector<OffloadChoice> OffloadChoices(const Network& network);

// For those that do not fit so: gradients too, then parameters, each with and without activations.
std::vector<OffloadChoice> FartherOffloadChoices(const Network& network);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_OFFLOAD_CHOICES_H_
