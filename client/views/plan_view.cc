#include "client/views/plan_view.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/planning/plan_rank_map.h"
#include "client/terminal/table.h"
#include "common/units.h"
#include "planner/search/explain.h"
#include "planner/search/job_choice.h"

namespace strata::client {
namespace {

using planner::Candidate;
using planner::RankedPlan;
using planner::SearchRequest;
using planner::SearchResult;

using RankMap = std::vector<scheduler::OrderTime>;

// Of a question's fastest plan.
RankMap MapOf(const LoadedPlan& plan, const PlanAnswer& answer) {
  const std::vector<RankedPlan>& plans = answer.result.plans;
  return plans.empty() ? RankMap() : RankMapTimes(plan, answer.question, plans.front());
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
  const double host = request.machine.network.host_memory_bytes;
  return {{"place", ObjectOf(planner::InJobWords(ranked.layout).memory)},
          {"device_bytes", ranked.step.memory_bytes},
          {"device_limit_bytes", request.memory_bytes},
          {"host_bytes", ranked.step.host_bytes},
          {"host_limit_bytes", host > 0 ? Json(host) : Json()},
          {"source", ranked.bytes_of_programs ? "program" : "closed form"}};
}

// What a plan needs more of than there is: of the device, of its share of the host, or of both.
struct Need {
  bool of_host = false;
  double bytes = 0, limit = 0;
};
std::vector<Need> NeedsOf(const SearchRequest& request, const RankedPlan& large) {
  std::vector<Need> needs;
  const double host = request.machine.network.host_memory_bytes;
  if (large.step.memory_bytes > request.memory_bytes) {
    needs.push_back({false, large.step.memory_bytes, request.memory_bytes});
  }
  if (host > 0 && large.step.host_bytes > host)
    needs.push_back({true, large.step.host_bytes, host});
  return needs;
}

std::string WhyOf(const LoadedPlan& plan, const SearchRequest& request, const SearchResult& result,
                  size_t index) {
  return index == 0 ? planner::WhyBest(request, result, plan.saved_names)
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

Json JsonOf(const LoadedPlan& plan, const PlanAnswer& answer, size_t index, const RankMap& rank_map,
            const absl::StatusOr<planner::Replay>* replay) {
  const SearchRequest& request = answer.question.request;
  const RankedPlan& ranked = answer.result.plans[index];
  Json terms = Json::object();
  for (const auto& [name, seconds] : planner::NamedTerms(ranked.step.terms)) terms[name] = seconds;
  const PlanRates rates = RatesOf(answer.question, plan.run_tokens, ranked);
  Json json = {
      {"parallel", ObjectOf(planner::InJobWords(ranked.layout, plan.saved_names).parallel)},
      {"memory", MemoryOf(request, ranked)},
      {"seconds", ranked.step.seconds},
      {"terms", terms},
      {"tokens_per_second_per_device", rates.tokens_per_device},
      {"mfu_causal", rates.mfu_causal},
      {"mfu_full_attention", rates.mfu_full},
      {"why", WhyOf(plan, request, answer.result, index)}};
  if (answer.question.price_per_device_hour > 0) {
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

std::string RankedText(const LoadedPlan& plan, const PlanAnswer& answer, const Replays& replays,
                       bool unicode) {
  const SearchRequest& request = answer.question.request;
  const SearchResult& result = answer.result;
  std::vector<std::vector<std::string>> rows;
  const bool priced = answer.question.price_per_device_hour > 0;
  const bool on_host = std::any_of(result.plans.begin(), result.plans.end(),
                                   [](const RankedPlan& p) { return p.step.host_bytes > 0; });
  const bool own = plan.software == planner::kOwnFramework;
  const double longest = result.plans.back().step.seconds;
  bool any_by_formula = false;
  for (const RankedPlan& ranked : result.plans) {
    const bool by_formula = own && !ranked.bytes_of_programs;
    any_by_formula |= by_formula && planner::HasPrograms(request.shape, ranked.layout).ok();
    const PlanRates rates = RatesOf(answer.question, plan.run_tokens, ranked);
    std::vector<std::string> row = {
        absl::StrCat(rows.size() + 1), common::FormatShortSeconds(ranked.step.seconds),
        absl::StrFormat("%.0f", rates.tokens_per_device),
        absl::StrFormat("%.1f / %.1f %%", 100 * rates.mfu_causal, 100 * rates.mfu_full),
        absl::StrFormat("%s%.1f GB", by_formula ? "~" : "", ranked.step.memory_bytes / 1e9)};
    if (!replays.empty()) {
      const absl::StatusOr<planner::Replay>& replay = replays[rows.size()];
      row.insert(row.begin() + 2,
                 replay.ok() ? common::FormatShortSeconds(replay->seconds) : std::string("–"));
    }
    if (on_host) row.push_back(absl::StrFormat("%.1f GB", ranked.step.host_bytes / 1e9));
    if (priced) row.push_back(absl::StrFormat("%.2f", rates.per_billion_tokens));
    row.push_back(planner::InJobWords(ranked.layout, plan.saved_names).ToText());
    rows.push_back(std::move(row));
  }
  std::vector<std::string> heading = {"", "STEP", "TOKENS/S EACH", "MFU", "DEVICE"};
  if (!replays.empty()) heading.insert(heading.begin() + 2, "REPLAYED");
  if (on_host) heading.emplace_back("HOST");
  if (priced) heading.emplace_back("PER 1e9 TOKENS");
  heading.emplace_back("LAYOUT");
  std::string text = FormatTable(heading, rows);
  absl::StrAppend(&text, "\n");
  for (size_t i = 0; i < result.plans.size(); ++i) {
    absl::StrAppend(&text, i + 1, "  ", Bar(result.plans[i], longest, unicode), "\n   ",
                    WhyOf(plan, request, result, i), "\n");
  }
  absl::StrAppend(&text, "   ",
                  unicode ? "█ products ▓ attention ▒ memory-bound kernels ░ what they wait for"
                          : "# products a attention m memory-bound kernels . what they wait for",
                  "\n");
  absl::StrAppend(&text, ReplayText(replays));
  if (any_by_formula) {
    absl::StrAppend(&text,
                    "~ by formula: strata fit reads the bytes of its programs, as --replay does\n");
  }
  const PlanRates rates = RatesOf(answer.question, plan.run_tokens, result.plans.front());
  if (plan.run_tokens > 0) {
    absl::StrAppendFormat(&text, "\n%.3g tokens take %.1f days", plan.run_tokens, rates.run_days);
    absl::StrAppend(&text, priced ? absl::StrFormat(" and cost %.4g\n", rates.run) : "\n");
  }
  return text;
}

std::string NothingFits(const LoadedPlan& plan, const SearchRequest& request,
                        const SearchResult& result) {
  if (!result.smallest.has_value()) return "no layout fits\n";
  const auto text = [](std::string* out, const Need& need) {
    absl::StrAppendFormat(out, "%.1f GB of a %s, %.1f are there", need.bytes / 1e9,
                          need.of_host ? "device's share of its host" : "device", need.limit / 1e9);
  };
  return absl::StrFormat(
      "none of %d legal layouts fits: the smallest, %s, needs %s "
      "— more devices, a smaller micro-batch or sequence, or strata fit for other ways\n",
      result.legal, planner::InJobWords(result.smallest->layout, plan.saved_names).ToText(),
      absl::StrJoin(NeedsOf(request, *result.smallest), ", and ", text));
}

// What the answers say of something, each once: "H100, A100-80GB".
template <typename Get>
std::string Each(const std::vector<PlanAnswer>& answers, const Get& get) {
  std::vector<std::string> all;
  for (const PlanAnswer& answer : answers) {
    const std::string text = absl::StrCat(get(answer.question));
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  }
  return absl::StrJoin(all, ", ");
}

std::string HeadText(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers) {
  const SearchRequest& first = answers.front().question.request;
  const auto devices = [](const PlanQuestion& q) { return q.request.devices; };
  const auto batch = [](const PlanQuestion& q) { return q.request.global_batch; };
  return absl::StrCat(plan.model.name, " on ", Each(answers, devices), " ",
                      Each(answers, [](const PlanQuestion& q) { return q.gpu; }),
                      plan.network.empty() ? "" : absl::StrCat(", ", plan.network), ": ",
                      Each(answers, batch), " sequences of ", first.shape.sequence_length,
                      " tokens a step, products in ", planner::NameOf(first.precision), ", by ",
                      plan.software, "; times as calibrated by ",
                      Each(answers, [](const PlanQuestion& q) { return q.calibration; }), "\n");
}

// Of a variation without a plan.
std::string WhyNoPlan(const LoadedPlan& plan, const PlanAnswer& answer) {
  if (!answer.why_none.empty()) return absl::StrCat("no legal layout: ", answer.why_none);
  const auto& smallest = answer.result.smallest;
  if (!smallest.has_value()) return "does not fit";
  const auto text = [](std::string* out, const Need& need) {
    absl::StrAppendFormat(out, "%.1f GB of %s%.1f", need.bytes / 1e9,
                          need.of_host ? "the host's " : "", need.limit / 1e9);
  };
  return absl::StrCat("does not fit: needs ",
                      absl::StrJoin(NeedsOf(answer.question.request, *smallest), " and ", text),
                      " with ", planner::InJobWords(smallest->layout, plan.saved_names).ToText());
}

std::string VariationsText(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers) {
  const bool priced = std::any_of(answers.begin(), answers.end(), [](const PlanAnswer& answer) {
    return answer.question.price_per_device_hour > 0;
  });
  const bool run = priced && plan.run_tokens > 0;
  std::vector<std::string> heading = {"WITH", "STEP", "TOKENS/S EACH"};
  if (priced) heading.emplace_back("PER 1e9 TOKENS");
  if (run) heading.emplace_back("RUN");
  heading.emplace_back("LAYOUT");
  std::vector<std::vector<std::string>> rows;
  for (const PlanAnswer& answer : answers) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(answer.question.settings);
    if (answer.result.plans.empty()) {
      row.emplace_back("–");
      row.resize(heading.size() - 1);
      row.push_back(WhyNoPlan(plan, answer));
      continue;
    }
    const RankedPlan& best = answer.result.plans.front();
    const PlanRates rates = RatesOf(answer.question, plan.run_tokens, best);
    row.push_back(common::FormatShortSeconds(best.step.seconds));
    row.push_back(absl::StrFormat("%.0f", rates.tokens_per_device));
    const bool has_price = answer.question.price_per_device_hour > 0;
    if (priced) row.push_back(has_price ? absl::StrFormat("%.2f", rates.per_billion_tokens) : "");
    if (run) row.push_back(has_price ? absl::StrFormat("%.4g", rates.run) : "");
    row.push_back(planner::InJobWords(best.layout, plan.saved_names).ToText());
  }
  return FormatTable(heading, rows);
}

}  // namespace

std::string PlanText(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers,
                     const Replays& replays, bool unicode) {
  std::string text = HeadText(plan, answers);
  if (answers.size() == 1) {
    const PlanAnswer& answer = answers.front();
    absl::StrAppend(&text, answer.result.legal, " legal layouts\n\n");
    return text +
           (answer.result.plans.empty() ? NothingFits(plan, answer.question.request, answer.result)
                                        : RankedText(plan, answer, replays, unicode)) +
           RankMapText(MapOf(plan, answer));
  }
  return absl::StrCat(text, "\n", VariationsText(plan, answers));
}

Json ToJson(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers,
            const Replays& replays) {
  const auto add_smallest = [&plan](const PlanAnswer& answer, Json& json) {
    const auto& smallest = answer.result.smallest;
    if (!smallest.has_value()) return;
    json["smallest"] = {
        {"parallel", ObjectOf(planner::InJobWords(smallest->layout, plan.saved_names).parallel)},
        {"memory", MemoryOf(answer.question.request, *smallest)}};
  };
  const auto plans = [&](const PlanAnswer& answer, size_t most) {
    Json list = Json::array();
    for (size_t i = 0; i < std::min(most, answer.result.plans.size()); ++i) {
      list.push_back(JsonOf(plan, answer, i, i == 0 ? MapOf(plan, answer) : RankMap(),
                            i < replays.size() ? &replays[i] : nullptr));
    }
    return list;
  };
  const PlanQuestion& first = answers.front().question;
  Json json = {{"model", plan.model.name},
               {"device", first.gpu},
               {"devices", first.request.devices},
               {"framework", plan.software},
               {"calibration", first.calibration}};
  if (answers.size() == 1) {
    json["legal"] = answers[0].result.legal;
    json["plans"] = plans(answers[0], answers[0].result.plans.size());
    add_smallest(answers[0], json);
    return json;
  }
  json["variations"] = Json::array();
  for (const PlanAnswer& answer : answers) {
    Json row = {{"set", answer.question.settings},
                {"device", answer.question.gpu},
                {"devices", answer.question.request.devices},
                {"calibration", answer.question.calibration},
                {"legal", answer.result.legal},
                {"plans", plans(answer, 1)}};
    add_smallest(answer, row);
    if (!answer.why_none.empty()) row["why_none"] = answer.why_none;
    json["variations"].push_back(std::move(row));
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
