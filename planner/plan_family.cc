#include "planner/plan_family.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace strata::planner {
namespace {

using v1::ParallelSpec;
using v1::TrainSpec;

// As job files write it: "SHARD_ZERO1" of "SHARD_" is zero1.
std::string Word(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

std::string WorkloadOf(const v1::JobSpec& job, const v1::ModelSpec& model,
                       const std::string& device) {
  const TrainSpec& train = job.train();
  const int64_t kv_heads = model.has_kv_heads() ? model.kv_heads() : model.heads();
  const int64_t head_size = model.has_head_size()
                                ? model.head_size()
                                : model.hidden() / std::max<int64_t>(1, model.heads());
  // What is not said is what the defaults are.
  const auto precision = std::max(train.precision(), TrainSpec::PRECISION_F32);
  const auto method = std::max(train.method(), TrainSpec::METHOD_FULL);
  return absl::StrCat(
      Word(v1::ModelSpec::Family_Name(model.family()), "FAMILY_"), " ", model.layers(), " x ",
      model.hidden(), ", heads ", model.heads(), "/", kv_heads, " x ", head_size, ", ffn ",
      model.ffn(), ", vocab ", model.vocab(), ", sequence ", train.sequence(), ", ",
      Word(TrainSpec::Method_Name(method), "METHOD_"),
      method == TrainSpec::METHOD_FULL ? "" : absl::StrCat(" ", train.lora().rank()), " ",
      Word(TrainSpec::Precision_Name(precision), "PRECISION_"), ", ", device);
}

std::string Recompute(const v1::RecomputeSpec& recompute) {
  std::string text = Word(v1::RecomputeSpec::Mode_Name(recompute.mode()), "MODE_");
  if (!recompute.has_mode()) text = absl::StrCat("save ", absl::StrJoin(recompute.save(), " "));
  if (recompute.has_layers()) {
    absl::StrAppend(&text, " of ", recompute.layers().first(), "-", recompute.layers().last());
  }
  return text;
}

// "host", or "host 0.6 ssd 0.4"; empty: all of it on the device.
std::string Place(const v1::TierShares& shares) {
  std::string text;
  const std::pair<const char*, double> away[] = {
      {"unified", shares.unified()}, {"host", shares.host()}, {"ssd", shares.ssd()}};
  for (const auto& [tier, share] : away) {
    if (share <= 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", tier,
                    share < 1 ? absl::StrCat(" ", share) : "");
  }
  return text;
}

std::string LayoutOf(const v1::JobSpec& job) {
  const ParallelSpec& parallel = job.parallel();
  std::vector<std::string> words;
  const auto degree = [&](const char* name, int64_t value) {
    if (value > 1) words.push_back(absl::StrCat(name, " ", value));
    return value > 1;
  };
  degree("tensor", parallel.tensor());
  if (degree("context", parallel.context()) &&
      parallel.context_method() > ParallelSpec::CONTEXT_METHOD_RING) {
    words.push_back(
        Word(ParallelSpec::ContextMethod_Name(parallel.context_method()), "CONTEXT_METHOD_"));
  }
  degree("expert", parallel.expert());
  if (degree("pipeline", parallel.pipeline())) {
    if (parallel.pipeline_schedule() > ParallelSpec::PIPELINE_SCHEDULE_1F1B) {
      words.push_back(Word(ParallelSpec::PipelineSchedule_Name(parallel.pipeline_schedule()),
                           "PIPELINE_SCHEDULE_"));
    }
    degree("virtual_stages", parallel.virtual_stages());
  }
  const int64_t data = std::max<int64_t>(1, parallel.data());
  words.push_back(absl::StrCat("data ", data));
  if (parallel.shard() > ParallelSpec::SHARD_NONE) {
    words.push_back(Word(ParallelSpec::Shard_Name(parallel.shard()), "SHARD_"));
    const int64_t group = parallel.shard_group();
    if (group > 0 && group < data) words.push_back(absl::StrCat("shard_group ", group));
  }
  const v1::RecomputeSpec& recompute = parallel.recompute();
  if (recompute.mode() > v1::RecomputeSpec::MODE_NONE || recompute.save_size() > 0 ||
      recompute.has_layers()) {
    words.push_back(absl::StrCat("recompute ", Recompute(recompute)));
  }
  if (parallel.update_policy() > ParallelSpec::UPDATE_POLICY_DEFERRED) {
    words.push_back(
        Word(ParallelSpec::UpdatePolicy_Name(parallel.update_policy()), "UPDATE_POLICY_"));
  }
  const v1::PlaceSpec& place = job.memory().place();
  const std::pair<const char*, const v1::TierShares*> classes[] = {
      {"parameters", &place.parameters()},
      {"gradients", &place.gradients()},
      {"optimizer", &place.optimizer()},
      {"activations", &place.activations()}};
  for (const auto& [name, shares] : classes) {
    const std::string where = Place(*shares);
    if (!where.empty()) words.push_back(absl::StrCat(name, " on ", where));
  }
  return absl::StrJoin(words, ", ");
}

// In logarithms, so that 2 and 1/2 cancel.
double Median(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const size_t middle = ratios.size() / 2;
  if (ratios.size() % 2 == 1) return ratios[middle];
  return std::sqrt(ratios[middle - 1] * ratios[middle]);
}

}  // namespace

FamilyKey FamilyOf(const v1::JobSpec& job, const v1::ModelSpec& model, const std::string& device) {
  return {WorkloadOf(job, model, device), LayoutOf(job)};
}

std::optional<Correction> CorrectionOf(const FamilyKey& key, const LearnedFamilies& learned) {
  std::vector<double> others;
  int64_t steps = 0;
  for (const v1::PlanFamily& family : learned) {
    if (family.workload() != key.workload || !(family.ratio() > 0)) continue;
    if (family.layout() == key.layout) return Correction{family.ratio(), family.steps(), true};
    others.push_back(family.ratio());
    steps += family.steps();
  }
  if (others.empty()) return std::nullopt;
  return Correction{Median(std::move(others)), steps, false};
}

std::string ToText(const Correction& correction) {
  return absl::StrFormat("%.3g × the predicted time, as %d steps of %s took", correction.ratio,
                         correction.steps,
                         correction.of_layout ? "this layout" : "other layouts of this workload");
}

}  // namespace strata::planner
