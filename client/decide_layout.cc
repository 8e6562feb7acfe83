#include "client/decide_layout.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/auto_layout.h"
#include "client/machine.h"
#include "client/machine_profile.h"
#include "common/host_name.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "planner/cost/profile_cost_model.h"

namespace strata::client {
namespace {

struct Costs {
  std::unique_ptr<program::CostModel> model;
  std::string notice;  // why they are not this machine's
};

Costs CostsOf(const std::optional<v1::Profile>& profile, int64_t ranks, int64_t threads) {
  Costs costs;
  if (profile.has_value()) {
    const auto measured = planner::FindRanks(
        *profile,
        {.host = common::HostName(), .isa = profile->isa(), .ranks = ranks, .threads = threads});
    if (measured.ok()) {
      costs.model = std::make_unique<planner::ProfileCostModel>(**measured);
      return costs;
    }
    costs.notice = std::string(measured.status().message());
  } else {
    costs.notice = "this machine was not measured: strata calibrate";
  }
  const double share = static_cast<double>(threads);
  costs.model = std::make_unique<program::RateCostModel>(
      program::Rates{.flops_per_second = 5e10 * share, .memory_bytes_per_second = 1e10 * share});
  return costs;
}

}  // namespace

absl::StatusOr<RankedLayouts> RankHere(const spec::JobFile& file, const ReadWith& read,
                                       const std::string& profile, int64_t memory_bytes) {
  ASSIGN_OR_RETURN(const std::optional<v1::Profile> measured, LoadProfile(profile));
  const int64_t ranks = std::max<int64_t>(1, file.job.resources().ranks());
  const int64_t threads = ThreadsPerRank(ranks);
  Costs costs = CostsOf(measured, ranks, threads);
  const bool validates = file.job.evaluate().every_steps() > 0;
  RankedLayouts ranked{.notice = std::move(costs.notice)};
  ASSIGN_OR_RETURN(
      ranked.candidates,
      RankLayouts({.file = &file,
                   .read = read,
                   .costs = costs.model.get(),
                   .threads = threads,
                   .evaluate_sequences = validates ? file.job.evaluate().sequences() : 0,
                   .memory_bytes = memory_bytes}));
  return ranked;
}

absl::StatusOr<DecidedLayout> DecideLayout(const spec::JobFile& file, const ReadWith& read,
                                           const std::string& profile, int64_t memory_bytes) {
  ASSIGN_OR_RETURN(const RankedLayouts ranked, RankHere(file, read, profile, memory_bytes));
  const Candidate& best = ranked.candidates.front();
  DecidedLayout decided{.settings = best.settings};
  std::string text = absl::StrCat("auto: ", best.words.ToText(), ", predicted ",
                                  common::FormatShortSeconds(best.seconds), " a step",
                                  best.fits ? "" : ", but does not fit");
  if (ranked.candidates.size() > 1) {
    const Candidate& next = ranked.candidates[1];
    absl::StrAppend(&text, "; next of ", ranked.candidates.size(), ": ", next.words.ToText(), ", ",
                    next.fits ? common::FormatShortSeconds(next.seconds) : "which does not fit");
  }
  decided.notices.push_back(std::move(text));
  if (!ranked.notice.empty()) {
    decided.notices.push_back(absl::StrCat("auto: usual rates, as ", ranked.notice));
  }
  return decided;
}

}  // namespace strata::client
