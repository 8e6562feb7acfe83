#include "planner/search/explain.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "planner/performance/memory_estimate.h"

namespace strata::planner {
namespace {

constexpr double kGigabyte = 1e9;

std::string Gigabytes(double bytes) { return absl::StrFormat("%.1f GB", bytes / kGigabyte); }

// The largest of one sign, at most three, none that is below a tenth of the first.
std::string Largest(std::vector<std::pair<std::string, double>> differences, double sign) {
  std::stable_sort(differences.begin(), differences.end(),
                   [&](const auto& a, const auto& b) { return sign * a.second > sign * b.second; });
  std::string text;
  const double least = 0.1 * sign * differences.front().second;
  for (size_t i = 0; i < differences.size() && i < 3; ++i) {
    const double by = sign * differences[i].second;
    if (by <= 0 || by < least) break;
    absl::StrAppend(&text, text.empty() ? "" : ", ", differences[i].first, " ",
                    common::FormatShortSeconds(by));
  }
  return text;
}

// Of a plan with the optimizer's state in unified memory: what that costs, and what else would.
std::string WhyUnified(const SearchRequest& request, const RankedPlan& plan) {
  const StageParameters held = ParametersOf(request.shape, plan.layout);
  LayoutChoice layout = plan.layout;
  const double sharing = layout.sharding == Sharding::kReplicated ? 1 : layout.sharing();
  layout.unified = false;
  const std::string pages =
      request.machine.network.host_is_device
          ? std::string("one memory with the device's, so that nothing moves")
          : absl::StrCat("pages of ", Gigabytes(12 * (held.dense + held.experts) / sharing),
                         " come and go each step");
  return absl::StrCat(
      "; the optimizer's state in unified memory: ", pages,
      "; updated on the host the step would take ",
      common::FormatShortSeconds(PredictStep(request.machine, request.shape, layout).seconds));
}

}  // namespace

std::string JobWords::ToText() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : parallel) words.push_back(absl::StrCat(key, " ", value));
  for (const auto& [key, value] : memory) words.push_back(absl::StrCat(key, " on ", value));
  if (resident > 0) words.push_back(absl::StrCat(resident, " layers resident"));
  return words.empty() ? "all on the device" : absl::StrJoin(words, ", ");
}

JobWords InJobWords(const LayoutChoice& layout, const SavedNames& names) {
  JobWords words;
  const auto degree = [&](const char* key, int64_t value) {
    if (value > 1) words.parallel.emplace_back(key, absl::StrCat(value));
  };
  degree("tensor", layout.tensor);
  degree("context", layout.context);
  degree("pipeline", layout.pipeline);
  if (layout.chunks > 1) {
    words.parallel.emplace_back("pipeline_schedule", "interleaved");
    degree("virtual_stages", layout.chunks);
  }
  degree("expert", layout.expert);
  words.parallel.emplace_back("data", absl::StrCat(layout.data));
  static constexpr const char* kLevels[] = {"none", "zero1", "zero2", "zero3"};
  if (layout.data * layout.context > 1) {
    words.parallel.emplace_back("shard", kLevels[static_cast<int>(layout.sharding)]);
    if (layout.replicas > 1) {
      words.parallel.emplace_back("shard_group", absl::StrCat(layout.data / layout.replicas));
    }
  }
  words.parallel.emplace_back("micro_batch", absl::StrCat(layout.micro_batch));
  if (layout.recompute == Recompute::kOperators) {
    words.parallel.emplace_back("recompute", "operators");
  } else if (layout.recompute != Recompute::kNone) {
    words.parallel.emplace_back("recompute", RecomputeText(RecomputeOf(layout, names)));
  }
  if (Has(layout.offload, Offload::kParameters)) words.memory.emplace_back("parameters", "host");
  if (Has(layout.offload, Offload::kGradients)) words.memory.emplace_back("gradients", "host");
  if (Has(layout.offload, Offload::kOptimizer)) {
    words.memory.emplace_back("optimizer", layout.unified ? "unified" : "host");
  }
  if (Has(layout.offload, Offload::kActivations)) {
    words.memory.emplace_back("activations", "host");
  }
  return words;
}

std::vector<std::pair<std::string, double>> NamedTerms(const StepTerms& terms) {
  return {{"products", terms.products},
          {"attention", terms.attention},
          {"memory-bound kernels", terms.memory_bound},
          {"launches", terms.launch},
          {"tensor", terms.tensor},
          {"context", terms.context},
          {"pipeline messages", terms.pipeline_messages},
          {"bubble", terms.bubble},
          {"data", terms.data},
          {"optimizer", terms.optimizer},
          {"offload", terms.offload},
          {"overhead", terms.overhead},
          {"stragglers", terms.straggler}};
}

std::string WhySlower(const RankedPlan& faster, const RankedPlan& slower) {
  const auto a = NamedTerms(faster.step.terms), b = NamedTerms(slower.step.terms);
  std::vector<std::pair<std::string, double>> differences;
  for (size_t i = 0; i < a.size(); ++i)
    differences.emplace_back(a[i].first, b[i].second - a[i].second);
  const double by = slower.step.seconds - faster.step.seconds;
  if (by <= 0) {
    return absl::StrCat("as fast, and needs ",
                        Gigabytes(slower.step.memory_bytes - faster.step.memory_bytes),
                        " more of a device");
  }
  std::string text =
      absl::StrCat(common::FormatShortSeconds(by), " a step more: ", Largest(differences, 1));
  const std::string less = Largest(differences, -1);
  if (!less.empty()) absl::StrAppend(&text, "; less: ", less);
  return text;
}

std::string WhySaved(const SearchRequest& request, const LayoutChoice& layout) {
  if (!request.machine.software.saves_by_value || layout.recompute == Recompute::kOperators) {
    return "";
  }
  const ByValue<double> bytes = ValueBytes(request.shape, layout);
  const ByValue<PassCost> replays = ReplayCosts(request.machine, request.shape, KeyOf(layout));
  const double layers = LayersOf(request.shape, layout).middle;
  const double share = layout.listed_share(request.shape.layers);
  const SavedValues listed = SavedBy(layout.recompute, layout.saved);
  std::string saved, again;
  double kept = 0;
  for (int v = 0; v < kSavedValues; ++v) {
    const auto value = static_cast<SavedValue>(v);
    const double dropped =
        layers * ((listed.has(value) ? 0 : share) + (kUsualValues.has(value) ? 0 : 1 - share));
    const double held = bytes[v] * MicroBatchesHeld(layout);
    if (dropped < layers) {
      absl::StrAppend(&saved, saved.empty() ? "" : ", ", NameOf(value));
      if (dropped > 0) absl::StrAppendFormat(&saved, " in %.0f layers", layers - dropped);
      kept += (layers - dropped) * held;
    }
    if (dropped > 0) {
      const double micro_batches = static_cast<double>(layout.micro_batches());
      absl::StrAppend(&again, again.empty() ? "" : ", ", NameOf(value), " ",
                      common::FormatShortSeconds(dropped * micro_batches * replays[v].total()),
                      " for ", Gigabytes(dropped * held));
    }
  }
  return absl::StrCat(
      "saved: ",
      saved.empty() ? "the input" : absl::StrCat(saved, " (", Gigabytes(kept), " in all)"),
      again.empty() ? "" : "; made again: ", again);
}

std::string WhyBest(const SearchRequest& request, const SearchResult& result,
                    const SavedNames& names) {
  const RankedPlan& best = result.plans.front();
  const StepTerms& terms = best.step.terms;
  const double computing = terms.products + terms.attention;
  std::vector<std::pair<std::string, double>> others = NamedTerms(terms);
  others.erase(others.begin(), others.begin() + 2);
  std::string text = absl::StrFormat("products and attention are %.0f %% of the step",
                                     100 * computing / best.step.seconds);
  const std::string rest = Largest(std::move(others), 1);
  if (!rest.empty()) absl::StrAppend(&text, "; of the rest ", rest);
  const std::string saved = WhySaved(request, best.layout);
  if (!saved.empty()) absl::StrAppend(&text, "; ", saved);
  if (best.layout.unified) absl::StrAppend(&text, WhyUnified(request, best));
  if (result.fastest_too_large.has_value()) {
    const RankedPlan& large = *result.fastest_too_large;
    absl::StrAppend(&text, "; ", InJobWords(large.layout, names).ToText(), " would take ",
                    common::FormatShortSeconds(large.step.seconds), ", but needs ",
                    Gigabytes(large.step.memory_bytes), " of ", Gigabytes(request.memory_bytes));
  }
  return text;
}

}  // namespace strata::planner
