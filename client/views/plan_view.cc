#include "client/views/plan_view.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan_rank_map.h"
#include "client/terminal/table.h"
#include "common/units.h"
#include "planner/search/explain.h"

namespace strata::client {
namespace {

using planner::Candidate;
using planner::RankedPlan;
using planner::SearchRequest;
using planner::SearchResult;

using RankMap = std::vector<scheduler::OrderTime>;

// Of a question's fastest plan.
RankMap MapOf(const LoadedPlan& plan, const std::vector<SearchResult>& results, size_t question) {
  const std::vector<RankedPlan>& plans = results[question].plans;
  return plans.empty() ? RankMap() : RankMapTimes(plan, plan.questions[question], plans.front());
}

struct Rates {
  double tokens_per_device = 0;  // a second
  double mfu_causal = 0, mfu_full = 0;
  double per_billion_tokens = 0, run = 0;  // money; 0: no price, or no tokens
  double run_days = 0;
};

Rates RatesOf(const LoadedPlan& plan, const SearchRequest& request, const RankedPlan& ranked) {
  const double devices = static_cast<double>(request.devices);
  const double tokens = static_cast<double>(request.global_batch * request.shape.sequence_length);
  Rates rates;
  rates.tokens_per_device = tokens / ranked.step.seconds / devices;
  // Of the 16-bit peak, whatever the products run in.
  const double peak = request.machine.gpu.peak[static_cast<int>(planner::Precision::kHalf)];
  rates.mfu_causal = rates.tokens_per_device * planner::FlopsPerToken(request.shape, true) / peak;
  rates.mfu_full = rates.tokens_per_device * planner::FlopsPerToken(request.shape, false) / peak;
  rates.per_billion_tokens = 1e9 / rates.tokens_per_device / 3600 * plan.price_per_device_hour;
  rates.run = rates.per_billion_tokens * plan.run_tokens / 1e9;
  rates.run_days = plan.run_tokens / (rates.tokens_per_device * devices) / 86400;
  return rates;
}

// Numbers as numbers, words as words.
Json ObjectOf(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [key, value] : pairs) {
    int64_t number = 0;
    if (absl::SimpleAtoi(value, &number)) {
      object[key] = number;
    } else {
      object[key] = value;
    }
  }
  return object;
}

Json MemoryOf(const SearchRequest& request, const RankedPlan& ranked) {
  return {{"place", ObjectOf(planner::InJobWords(ranked.layout).memory)},
          {"device_bytes", ranked.step.memory_bytes},
          {"device_limit_bytes", request.memory_bytes}};
}

std::string WhyOf(const SearchRequest& request, const SearchResult& result, size_t index) {
  return index == 0 ? planner::WhyBest(request, result)
                    : planner::WhySlower(result.plans.front(), result.plans[index]);
}

void AddReplay(const absl::StatusOr<planner::Replay>* replay, Json& json) {
  if (replay == nullptr) return;
  if (!replay->ok()) {
    json["replay"] = nullptr;
    json["replay_reason"] = std::string(replay->status().message());
    return;
  }
  Json terms = Json::object();
  for (const auto& [name, seconds] : (*replay)->terms) terms[name] = seconds;
  json["replay"] = {{"seconds", (*replay)->seconds}, {"terms", terms}};
}

Json JsonOf(const LoadedPlan& plan, const SearchRequest& request, const SearchResult& result,
            size_t index, const RankMap& rank_map, const absl::StatusOr<planner::Replay>* replay) {
  const RankedPlan& ranked = result.plans[index];
  Json terms = Json::object();
  for (const auto& [name, seconds] : planner::NamedTerms(ranked.step.terms)) terms[name] = seconds;
  const Rates rates = RatesOf(plan, request, ranked);
  Json json = {{"parallel", ObjectOf(planner::InJobWords(ranked.layout).parallel)},
               {"memory", MemoryOf(request, ranked)},
               {"seconds", ranked.step.seconds},
               {"terms", terms},
               {"tokens_per_second_per_device", rates.tokens_per_device},
               {"mfu_causal", rates.mfu_causal},
               {"mfu_full_attention", rates.mfu_full},
               {"why", WhyOf(request, result, index)}};
  if (plan.price_per_device_hour > 0) {
    json["price_per_billion_tokens"] = rates.per_billion_tokens;
    if (plan.run_tokens > 0) json["price_of_run"] = rates.run;
  }
  if (plan.run_tokens > 0) json["days_of_run"] = rates.run_days;
  AddReplay(replay, json);
  for (const scheduler::OrderTime& time : rank_map) {
    json["rank_map"][time.order == "placed" ? "seconds" : time.order] = time.seconds;
  }
  return json;
}

// The step as a bar, each term by its letter's share.
std::string Bar(const RankedPlan& ranked, double longest, bool unicode) {
  constexpr int kWidth = 48;
  static constexpr const char* kUnicode[] = {"█", "▓", "▒", "░"};
  static constexpr const char* kPlain[] = {"#", "a", "m", "."};
  const planner::StepTerms& t = ranked.step.terms;
  const double parts[] = {
      t.products, t.attention, t.memory_bound + t.launch,
      ranked.step.seconds - t.products - t.attention - t.memory_bound - t.launch};
  std::string bar;
  double until = 0;
  int drawn = 0;
  for (int p = 0; p < 4; ++p) {
    until += parts[p];
    const int end = static_cast<int>(std::lround(until / longest * kWidth));
    for (; drawn < end; ++drawn) bar += unicode ? kUnicode[p] : kPlain[p];
  }
  return bar;
}

// "Placed on the cluster …", of the fastest; nothing where it was not placed.
std::string RankMapText(const RankMap& rank_map) {
  if (rank_map.empty()) return "";
  std::string others;
  for (const scheduler::OrderTime& time : rank_map) {
    if (time.order == "placed") continue;
    absl::StrAppend(&others, others.empty() ? "" : ", ", time.order, " ",
                    common::FormatShortSeconds(time.seconds));
  }
  return absl::StrCat("\nPlaced on the cluster, 1 takes ",
                      common::FormatShortSeconds(rank_map.front().seconds),
                      " a step; in other orders of the same devices: ", others, "\n");
}

// What replaying the programs changes about the order; why there is none.
std::string ReplayText(const Replays& replays) {
  if (replays.empty()) return "";
  size_t best = 0;
  for (size_t i = 0; i < replays.size(); ++i) {
    if (!replays[i].ok()) {
      return absl::StrCat("Not replayed: ", i + 1, ": ", replays[i].status().message(), "\n");
    }
    if (replays[i]->seconds < replays[best]->seconds) best = i;
  }
  if (best == 0) return "";
  return absl::StrFormat("Replayed by its program, %d is %.1f %% faster than 1\n", best + 1,
                         100 * (replays[0]->seconds / replays[best]->seconds - 1));
}

std::string RankedText(const LoadedPlan& plan, const SearchRequest& request,
                       const SearchResult& result, const Replays& replays, bool unicode) {
  std::vector<std::vector<std::string>> rows;
  const bool priced = plan.price_per_device_hour > 0;
  const double longest = result.plans.back().step.seconds;
  for (const RankedPlan& ranked : result.plans) {
    const Rates rates = RatesOf(plan, request, ranked);
    std::vector<std::string> row = {
        absl::StrCat(rows.size() + 1), common::FormatShortSeconds(ranked.step.seconds),
        absl::StrFormat("%.0f", rates.tokens_per_device),
        absl::StrFormat("%.1f / %.1f %%", 100 * rates.mfu_causal, 100 * rates.mfu_full),
        absl::StrFormat("%.1f GB", ranked.step.memory_bytes / 1e9)};
    if (!replays.empty()) {
      const absl::StatusOr<planner::Replay>& replay = replays[rows.size()];
      row.insert(row.begin() + 2,
                 replay.ok() ? common::FormatShortSeconds(replay->seconds) : std::string("–"));
    }
    if (priced) row.push_back(absl::StrFormat("%.2f", rates.per_billion_tokens));
    row.push_back(planner::InJobWords(ranked.layout).ToText());
    rows.push_back(std::move(row));
  }
  std::vector<std::string> heading = {"", "STEP", "TOKENS/S", "MFU", "DEVICE"};
  if (!replays.empty()) heading.insert(heading.begin() + 2, "REPLAYED");
  if (priced) heading.push_back("PER 1e9 TOKENS");
  heading.push_back("LAYOUT");
  std::string text = FormatTable(heading, rows);
  absl::StrAppend(&text, "\n");
  for (size_t i = 0; i < result.plans.size(); ++i) {
    absl::StrAppend(&text, i + 1, "  ", Bar(result.plans[i], longest, unicode), "\n   ",
                    WhyOf(request, result, i), "\n");
  }
  absl::StrAppend(&text, "   ",
                  unicode ? "█ products ▓ attention ▒ memory-bound kernels ░ what they wait for"
                          : "# products a attention m memory-bound kernels . what they wait for",
                  "\n");
  absl::StrAppend(&text, ReplayText(replays));
  const Rates rates = RatesOf(plan, request, result.plans.front());
  if (plan.run_tokens > 0) {
    absl::StrAppendFormat(&text, "\n%.3g tokens take %.1f days", plan.run_tokens, rates.run_days);
    absl::StrAppend(&text, priced ? absl::StrFormat(" and cost %.4g\n", rates.run) : "\n");
  }
  return text;
}

std::string NothingFits(const SearchRequest& request, const SearchResult& result) {
  if (!result.smallest.has_value()) return "no layout fits\n";
  const RankedPlan& smallest = *result.smallest;
  const double host = request.machine.network.host_memory_bytes;
  const bool of_host = host > 0 && smallest.step.host_bytes > host;
  return absl::StrFormat(
      "none of %d legal layouts fits: the smallest, %s, needs %.1f GB of a %s, %.1f are there "
      "— more devices, a smaller micro-batch or sequence, or strata fit for other ways\n",
      result.legal, planner::InJobWords(smallest.layout).ToText(),
      (of_host ? smallest.step.host_bytes : smallest.step.memory_bytes) / 1e9,
      of_host ? "device's share of its host" : "device",
      (of_host ? host : request.memory_bytes) / 1e9);
}

}  // namespace

std::string PlanText(const LoadedPlan& plan, const std::vector<SearchResult>& results,
                     const Replays& replays, bool unicode) {
  const SearchRequest& first = plan.questions.front().request;
  std::string text =
      absl::StrCat(plan.model, " on ", first.devices, " ", plan.gpu,
                   plan.network.empty() ? "" : absl::StrCat(", ", plan.network), ": ",
                   first.global_batch, " sequences of ", first.shape.sequence_length,
                   " tokens a step, products in ", planner::NameOf(first.precision), ", by ",
                   plan.software, "; times as calibrated by ", plan.calibration, "\n");
  if (plan.questions.size() == 1) {
    absl::StrAppend(&text, results[0].legal, " legal layouts\n\n");
    return text +
           (results[0].plans.empty() ? NothingFits(first, results[0])
                                     : RankedText(plan, first, results[0], replays, unicode)) +
           RankMapText(MapOf(plan, results, 0));
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t q = 0; q < results.size(); ++q) {
    const PlanQuestion& question = plan.questions[q];
    if (results[q].plans.empty()) {
      rows.push_back(
          {question.settings, results[q].legal == 0 ? "no legal layout" : "does not fit"});
      continue;
    }
    const RankedPlan& best = results[q].plans.front();
    const Rates rates = RatesOf(plan, question.request, best);
    rows.push_back(
        {question.settings, common::FormatShortSeconds(best.step.seconds),
         absl::StrFormat("%.0f", rates.tokens_per_device),
         plan.price_per_device_hour > 0 ? absl::StrFormat("%.2f", rates.per_billion_tokens) : "",
         planner::InJobWords(best.layout).ToText()});
  }
  return absl::StrCat(
      text, "\n",
      FormatTable({"WITH", "STEP", "TOKENS/S",
                   plan.price_per_device_hour > 0 ? "PER 1e9 TOKENS" : "", "LAYOUT"},
                  rows));
}

Json ToJson(const LoadedPlan& plan, const std::vector<SearchResult>& results,
            const Replays& replays) {
  const auto plans = [&](size_t q, size_t most) {
    Json list = Json::array();
    for (size_t i = 0; i < std::min(most, results[q].plans.size()); ++i) {
      list.push_back(JsonOf(plan, plan.questions[q].request, results[q], i,
                            i == 0 ? MapOf(plan, results, q) : RankMap(),
                            i < replays.size() ? &replays[i] : nullptr));
    }
    return list;
  };
  Json json = {{"model", plan.model},
               {"device", plan.gpu},
               {"devices", plan.questions.front().request.devices},
               {"framework", plan.software},
               {"calibration", plan.calibration}};
  if (plan.questions.size() == 1) {
    json["legal"] = results[0].legal;
    json["plans"] = plans(0, results[0].plans.size());
    if (const auto& smallest = results[0].smallest; smallest.has_value()) {
      json["smallest"] = {{"parallel", ObjectOf(planner::InJobWords(smallest->layout).parallel)},
                          {"memory", MemoryOf(plan.questions[0].request, *smallest)}};
    }
    return json;
  }
  json["variations"] = Json::array();
  for (size_t q = 0; q < results.size(); ++q) {
    json["variations"].push_back(
        {{"set", plan.questions[q].settings}, {"legal", results[q].legal}, {"plans", plans(q, 1)}});
  }
  return json;
}

namespace {

// Of the fastest: what it waits for. Of others: what they lose by.
std::string WhyOf(const std::vector<Candidate>& layouts, size_t index) {
  const Candidate& layout = layouts[index];
  if (!layout.fits) return absl::StrCat("does not fit: ", layout.lacks);
  std::string waits;
  for (const auto& [name, seconds] : layout.terms) {
    if (name == "compute" || name == "correction" || seconds < 0.02 * layout.seconds) continue;
    absl::StrAppendFormat(&waits, "%s%s %.0f %%", waits.empty() ? "" : ", ", name,
                          100 * seconds / layout.seconds);
  }
  if (waits.empty()) waits = "waits for nothing of note";
  if (layout.correction.has_value()) {
    absl::StrAppend(&waits, "; ", planner::ToText(*layout.correction));
  }
  if (index == 0) return waits;
  return absl::StrFormat("%.1f %% slower: %s", 100 * (layout.seconds / layouts[0].seconds - 1),
                         waits);
}

}  // namespace

std::string LayoutsText(const std::vector<Candidate>& layouts, size_t top) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(top, layouts.size()); ++i) {
    rows.push_back({absl::StrCat(i + 1), common::FormatShortSeconds(layouts[i].seconds),
                    common::FormatBytes(static_cast<double>(layouts[i].bytes)),
                    layouts[i].words.ToText(), WhyOf(layouts, i)});
  }
  return absl::StrCat(FormatTable({"", "STEP", "ALL RANKS", "LAYOUT", "WHY"}, rows), layouts.size(),
                      " layouts were looked at\n");
}

Json LayoutsJson(const std::vector<Candidate>& layouts, size_t top) {
  Json plans = Json::array();
  for (size_t i = 0; i < std::min(top, layouts.size()); ++i) {
    const Candidate& layout = layouts[i];
    Json terms = Json::object();
    for (const auto& [name, seconds] : layout.terms) terms[name] = seconds;
    plans.push_back({{"parallel", ObjectOf(layout.words.parallel)},
                     {"memory", {{"bytes", layout.bytes}, {"fits", layout.fits}}},
                     {"seconds", layout.seconds},
                     {"terms", terms},
                     {"why", WhyOf(layouts, i)},
                     {"set", layout.settings}});
    if (!layout.words.memory.empty()) {
      plans.back()["memory"]["place"] = ObjectOf(layout.words.memory);
    }
    if (!layout.correction.has_value()) continue;
    plans.back()["correction"] = {{"ratio", layout.correction->ratio},
                                  {"steps", layout.correction->steps},
                                  {"of", layout.correction->of_layout ? "layout" : "workload"}};
  }
  return {{"plans", plans}, {"layouts", layouts.size()}};
}

}  // namespace strata::client
