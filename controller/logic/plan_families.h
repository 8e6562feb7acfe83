// What steps took beside what was predicted of them: of one start of a job's ranks, and of all jobs
// whose predictions err alike (planner/plan_family.h).
#ifndef STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_
#define STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/logic/effects.h"
#include "planner/plan_family.h"

namespace strata::controller {

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

// Durable: table "plan_families", key: WORKLOAD; LAYOUT. The newest answer of a start counts for
// half, those before for the other half.
class PlanFamilies {
 public:
  static constexpr char kTable[] = "plan_families";
  static constexpr size_t kMost = 256;  // beyond it the one goes that was not heard of for longest

  // One record of the table; false: it cannot be read.
  bool Restore(const Write& write);
  void Learn(const planner::FamilyKey& family, const ComparedSteps& steps, double wall,
             Effects& effects);

  // By workload, then layout.
  const std::map<std::pair<std::string, std::string>, v1::PlanFamily>& all() const { return all_; }
  planner::LearnedFamilies ToList() const;
  int64_t version() const { return version_; }  // another one whenever any of them has changed

 private:
  void DropOldest(Effects& effects);

  std::map<std::pair<std::string, std::string>, v1::PlanFamily> all_;
  int64_t version_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_
