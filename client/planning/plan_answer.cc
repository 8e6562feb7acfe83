#include "client/planning/plan_answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/planning/flag_error.h"
#include "planner/performance/catalog.h"
#include "planner/search/verified_search.h"

namespace strata::client {
namespace {

// Unasked, what takes a second or two, and of a plan a tenth.
constexpr planner::PassBudget kMoment = {.each = 320, .all = 4096};
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

}  // namespace

std::vector<PlanAnswer> AnswersOf(const LoadedPlan& plan, bool all_programs) {
  std::vector<PlanAnswer> answers;
  planner::PassBudget budget = all_programs ? planner::PassBudget{kAll, kAll} : kMoment;
  const bool own = plan.software == planner::kOwnFramework;
  for (const PlanQuestion& question : plan.questions) {
    planner::SearchRequest request = question.request;
    if (plan.questions.size() > 1) request.most = 1;
    absl::StatusOr<planner::SearchResult> found =
        own && question.card.bytes > 0
            ? planner::SearchVerified(request, plan.model, question.card, budget)
            : planner::Search(request);
    PlanAnswer answer{.question = question};
    if (found.ok()) {
      answer.result = *std::move(found);
    } else {
      answer.why_none = std::string(found.status().message());
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

PlanRates RatesOf(const PlanQuestion& question, double run_tokens,
                  const planner::RankedPlan& ranked) {
  const planner::SearchRequest& request = question.request;
  const double devices = static_cast<double>(request.devices);
  const double tokens = static_cast<double>(request.global_batch * request.shape.sequence_length);
  PlanRates rates;
  rates.tokens_per_device = tokens / ranked.step.seconds / devices;
  // Of the 16-bit peak, whatever the products run in.
  const double peak = request.machine.gpu.peak[static_cast<int>(planner::Precision::kHalf)];
  rates.mfu_causal = rates.tokens_per_device * planner::FlopsPerToken(request.shape, true) / peak;
  rates.mfu_full = rates.tokens_per_device * planner::FlopsPerToken(request.shape, false) / peak;
  rates.per_billion_tokens = 1e9 / rates.tokens_per_device / 3600 * question.price_per_device_hour;
  rates.run = rates.per_billion_tokens * run_tokens / 1e9;
  rates.run_days = run_tokens / (rates.tokens_per_device * devices) / 86400;
  return rates;
}

absl::StatusOr<std::string> RankAnswers(const std::string& by, std::vector<PlanAnswer>& answers) {
  const bool money = by == "money";
  const PlanQuestion& first = answers.front().question;
  bool same = true;  // money of all devices' second
  for (const PlanAnswer& answer : answers) {
    const PlanQuestion& question = answer.question;
    if (money && question.price_per_device_hour <= 0) {
      return FlagError("--rank",
                       absl::StrCat("money needs a price, and there is none of ", question.gpu,
                                    " — add --price MONEY, of one device "
                                    "and hour"));
    }
    same &= question.request.devices == first.request.devices &&
            question.price_per_device_hour == first.price_per_device_hour;
  }
  const auto key = [&](const PlanAnswer& answer) {
    if (answer.result.plans.empty()) return std::numeric_limits<double>::infinity();
    const PlanRates rates = RatesOf(answer.question, 0, answer.result.plans.front());
    const double devices = static_cast<double>(answer.question.request.devices);
    return money ? rates.per_billion_tokens : 1 / (rates.tokens_per_device * devices);
  };
  std::stable_sort(answers.begin(), answers.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (!money || !same) return std::string();
  return absl::StrCat("--rank money: all layouts are of ", first.request.devices,
                      " devices at one price, so that the fastest is the cheapest (--vary "
                      "devices=… or device=… to compare others)");
}

}  // namespace strata::client
