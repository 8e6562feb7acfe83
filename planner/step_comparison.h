// What the steps of one start of a job's ranks took beside what was predicted of them, and how a
// family of plans (plan_family.h) learns from it.
#ifndef STRATA_PLANNER_STEP_COMPARISON_H_
#define STRATA_PLANNER_STEP_COMPARISON_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "planner/plan_family.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::planner {

// A part of a step, and what was predicted of it.
struct MeasuredTerm {
  double measured_seconds = 0;
  double predicted_seconds = 0;
};

struct ComparedSteps {
  double ratio = 1;                           // measured / predicted: the median of the last steps
  int64_t steps = 0;                          // since what was told before
  std::map<std::string, MeasuredTerm> terms;  // means of the last steps
};

// The steps of one start of a job's ranks. Neither its first step (pages and caches are cold) nor a
// few slow ones say anything about the plan.
class StepComparison {
 public:
  static constexpr int64_t kFirst = 16;  // steps
  static constexpr size_t kLast = 64;

  // What is known after 16, 32, 64, … steps, so that what is learned of a long job is written a few
  // times only. Records without a prediction, or with numbers that no step has, do not count.
  std::optional<ComparedSteps> Add(const v1::StepRecord& step);

 private:
  struct Compared {
    double ratio = 1;
    std::map<std::string, MeasuredTerm> terms;
  };

  int64_t last_step_ = 0;  // 0: none was seen
  int64_t steps_ = 0;      // compared
  int64_t told_ = 0;       // of these
  std::deque<Compared> last_;
};

// What a family knows after these steps: the newest answer of a start counts for half, those before
// for the other half. `family`: as it was; empty: it is new. `wall`: seconds since 1970.
void Learn(const FamilyKey& key, const ComparedSteps& steps, double wall, v1::PlanFamily& family);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_STEP_COMPARISON_H_
