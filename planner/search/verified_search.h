// A search whose plans are held against the programs that their ranks would run: the closed form of
// memory may be some per cent off, and a plan that somebody takes has to fit.
#ifndef STRATA_PLANNER_SEARCH_VERIFIED_SEARCH_H_
#define STRATA_PLANNER_SEARCH_VERIFIED_SEARCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/fit/devices.h"
#include "planner/fit/presets.h"
#include "planner/search/search.h"

namespace strata::planner {

struct ProgramBytes {
  double device = 0, host = 0;  // of the fullest rank, with what the runtime takes
};

// As `strata fit` reads them, with AdamW on 32-bit states. Unimplemented: the engine has no such
// programs; InvalidArgument: no job can have the layout; each with the reason.
absl::StatusOr<ProgramBytes> BytesOfPrograms(const FitModel& model, const FitDevice& device,
                                             const SearchRequest& request,
                                             const LayoutChoice& layout);

// Passes of programs, of one layer and micro-batch, that may be composed: of each plan and of all;
// some 0.2 to 0.5 ms each; those of streamed layers count eightfold.
struct PassBudget {
  int64_t each = 0, all = 0;
};

// Search() for plans of `device` that fit by their programs, whose bytes they tell
// (RankedPlan::bytes_of_programs). What the plans of a search hold beside the closed form is known
// of their families in the next, until it learns nothing new. Of layouts that the engine has no
// programs for, and beyond `budget`, the bytes are the closed form's with what is known of their
// family; what is used is taken from budget.all.
absl::StatusOr<SearchResult> SearchVerified(const SearchRequest& request, const FitModel& model,
                                            const FitDevice& device, PassBudget& budget);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_VERIFIED_SEARCH_H_
