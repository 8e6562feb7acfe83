#include "client/wait_condition.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/views/job_view.h"
#include "spec/problems.h"
#include "spec/scalars.h"

namespace strata::client {
namespace {

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::Job::QUEUED; i <= v1::Job::State_MAX; ++i) {
    names.push_back(v1::Job::State_Name(static_cast<v1::Job::State>(i)));
  }
  return names;
}

}  // namespace

absl::StatusOr<WaitCondition> WaitCondition::Parse(const std::string& text) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("strata wait: --for=", spec::Shown(text), ": ",
                                                   why, " — write state=SUCCEEDED or step=N"));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return refuse("not a condition");
  const std::string value = text.substr(equals + 1);
  WaitCondition condition;
  if (absl::StartsWith(text, "state=")) {
    v1::Job::State state;
    const std::vector<std::string> names = StateNames();
    const bool known = std::find(names.begin(), names.end(), value) != names.end();
    if (!known || !v1::Job::State_Parse(value, &state)) {
      return refuse(
          absl::StrCat("unknown state (the states are ", absl::StrJoin(names, ", "), ")"));
    }
    condition.state_ = state;
    return condition;
  }
  if (absl::StartsWith(text, "step=")) {
    const auto step = spec::ParseCount(value);
    if (!step.ok() || *step < 1) return refuse("the step must be a whole number of at least 1");
    condition.step_ = *step;
    return condition;
  }
  return refuse(absl::StrCat("unknown condition ", spec::Shown(text.substr(0, equals))));
}

Verdict WaitCondition::Of(const v1::Job& job) const {
  const bool met = state_.has_value() ? job.state() == *state_ : job.step() >= step_;
  if (met) return Verdict::kMet;
  const bool beyond = !state_.has_value() && job.target_step() > 0 && step_ > job.target_step();
  return IsTerminal(job.state()) || beyond ? Verdict::kImpossible : Verdict::kOpen;
}

}  // namespace strata::client
