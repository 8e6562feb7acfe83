// The fastest layouts of a training among all that fit: every legal one is looked at, by the closed
// form of planner/performance.
#ifndef STRATA_PLANNER_SEARCH_SEARCH_H_
#define STRATA_PLANNER_SEARCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/performance/machine.h"
#include "planner/performance/shape.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {

// What the user has decided; absent: the search does.
struct Pins {
  std::optional<int64_t> tensor, pipeline, chunks, context, expert, data, micro_batch;
  std::optional<int64_t> shard_group;  // data ranks that share; the others are replicas
  std::optional<Sharding> sharding;
  std::optional<Recompute> recompute;  // kListed: with `saved`, in all layers
  SavedValues saved = {};
  std::optional<Offload> offload;
  bool unified = false;  // with `offload`: of its states
};

// Bytes of a device and of the host that a layout's programs hold beside what the closed form has.
struct MoreBytes {
  double device = 0, host = 0;
};

struct SearchRequest {
  Machine machine;
  TrainingShape shape;
  int64_t devices = 1;
  int64_t global_batch = 1;  // sequences
  Precision precision = Precision::kHalf;
  double memory_bytes = 0;  // that a step may use of one device
  // Whether bytes may live beyond the device. Where that is one memory with the host's they would
  // not be beyond it. Unified memory is looked at where the link is coherent: by PCIe its pages
  // cost four times what gradients and parameters do.
  bool tiers = true;
  Pins pins;
  // Where it is known; the same of layouts that differ in what their blocks save alone. Null: not.
  std::function<MoreBytes(const LayoutChoice&)> more_bytes = nullptr;
  int most = 10;  // plans that are wanted
};

struct RankedPlan {
  LayoutChoice layout;
  StepPrediction step;
  // step.memory_bytes and host_bytes are what the programs of its ranks hold (verified_search.h).
  bool bytes_of_programs = false;
};

// The order of a search: by seconds, bytes of the device, then by the layout.
bool Faster(const RankedPlan& a, const RankedPlan& b);

struct SearchResult {
  // Fastest first; of equal ones that with less memory, then the smaller degrees. Where what blocks
  // save is chosen by value, of plans that differ in nothing else the fastest that fits. What has
  // more on the host than the same layout without, and is no faster, is left out. The same request
  // has the same answer.
  std::vector<RankedPlan> plans;
  int64_t legal = 0;  // layouts that are possible, whether they fit or not
  // Faster than plans.front(), but too large for a device: the fastest.
  std::optional<RankedPlan> fastest_too_large;
  // Where nothing fits: what needs least of the memory that is scarcest for it.
  std::optional<RankedPlan> smallest;
};

// What blocks may save where that is chosen by value (LadderOf): what is not there, any mode too,
// takes as long as something there that needs less, or longer.
std::vector<SavedValues> SavedChoices(const Machine& machine, const TrainingShape& shape,
                                      const LayoutChoice& layout);

// InvalidArgument: no layout is legal, which pins are to blame, and what they may be.
absl::StatusOr<SearchResult> Search(const SearchRequest& request);

// Each legal layout, in no order to rely on, with everything on the devices.
void VisitLegal(const SearchRequest& request,
                const std::function<void(const LayoutChoice&)>& visit);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_SEARCH_H_
