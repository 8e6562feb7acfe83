#include "planner/step_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "program/ir/types.h"

namespace strata::planner {
namespace {

// Beyond these a number is not how far a prediction is off, but wrong itself.
constexpr double kLeastRatio = 1e-3, kGreatestRatio = 1e3;

bool IsTransfer(const std::string& purpose) {
  return purpose == program::Name(program::Purpose::kFetch) ||
         purpose == program::Name(program::Purpose::kStash) ||
         purpose == program::Name(program::Purpose::kSnapshot);
}

std::map<std::string, MeasuredTerm> TermsOf(const v1::StepRecord& step) {
  std::map<std::string, MeasuredTerm> terms;
  const auto add = [&](const char* name, double measured, double predicted) {
    if (!std::isfinite(measured) || !std::isfinite(predicted)) return;
    terms[name].measured_seconds += measured;
    terms[name].predicted_seconds += predicted;
  };
  for (const v1::PurposeSeconds& purpose : step.purposes()) {
    add("compute", purpose.compute_seconds(), purpose.predicted_compute_seconds());
    add(IsTransfer(purpose.purpose()) ? "transfers" : "collectives", purpose.exposed_seconds(),
        purpose.predicted_exposed_seconds());
  }
  return terms;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool IsDue(int64_t steps) { return steps >= StepComparison::kFirst && (steps & (steps - 1)) == 0; }

}  // namespace

std::optional<ComparedSteps> StepComparison::Add(const v1::StepRecord& step) {
  const bool first = last_step_ == 0, again = step.step() <= last_step_;
  if (!again) last_step_ = step.step();
  const double ratio = step.seconds() / step.predicted_seconds();
  const bool real = ratio >= kLeastRatio && ratio <= kGreatestRatio;
  if (first || again || !step.has_predicted_seconds() || !real) return std::nullopt;
  last_.push_back({ratio, TermsOf(step)});
  if (last_.size() > kLast) last_.pop_front();
  ++steps_;
  if (!IsDue(steps_)) return std::nullopt;
  ComparedSteps compared{.steps = steps_ - std::exchange(told_, steps_)};
  std::vector<double> ratios;
  const double share = 1.0 / static_cast<double>(last_.size());
  for (const Compared& each : last_) {
    ratios.push_back(each.ratio);
    for (const auto& [name, term] : each.terms) {
      compared.terms[name].measured_seconds += share * term.measured_seconds;
      compared.terms[name].predicted_seconds += share * term.predicted_seconds;
    }
  }
  compared.ratio = Median(std::move(ratios));
  return compared;
}

void Learn(const FamilyKey& key, const ComparedSteps& steps, double wall, v1::PlanFamily& family) {
  // Ratios are averaged as logarithms: of 2 and 1/2 the middle is 1.
  family.set_ratio(family.steps() == 0 ? steps.ratio : std::sqrt(family.ratio() * steps.ratio));
  family.set_workload(key.workload);
  family.set_layout(key.layout);
  family.set_steps(family.steps() + steps.steps);
  family.clear_terms();
  for (const auto& [name, seconds] : steps.terms) {
    if (seconds.measured_seconds <= 0 && seconds.predicted_seconds <= 0) continue;
    v1::PlanFamily::Term& term = *family.add_terms();
    term.set_name(name);
    term.set_measured_seconds(seconds.measured_seconds);
    term.set_predicted_seconds(seconds.predicted_seconds);
  }
  family.mutable_update_time()->set_seconds(static_cast<int64_t>(wall));
}

}  // namespace strata::planner
