// Ways to make a job fit that does not, each looked at by the same report.
#ifndef STRATA_PLANNER_FIT_WAYS_H_
#define STRATA_PLANNER_FIT_WAYS_H_

#include <functional>
#include <string>
#include <vector>

#include "planner/fit/verdict.h"

namespace strata::planner {

struct Way {
  std::string text;    // what changes, and what that costs
  FitRequest request;  // with the change
  Fit fit;             // it fits
  // Of a step, where somebody can tell (WayCost); negative: nobody can.
  double seconds = -1;
};

// The seconds of a step of such a job; negative: not known. For whoever has a model of time.
using WayCost = std::function<double(const FitRequest& request)>;

// At most one way of each kind, those first that change least: sharding, smaller passes, recompute,
// streaming, host, SSD; more devices, of data, tensor or context (of inference: of layers); then
// what computes something else: fewer tokens at once, narrower optimizer state or weights, LoRA,
// QLoRA. Each kind with recompute and passes of one sequence where
// it does not do alone. With `cost`, ways of known times stand before others, fastest first.
std::vector<Way> FindWays(const FitRequest& request, const WayCost& cost = nullptr);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_WAYS_H_
