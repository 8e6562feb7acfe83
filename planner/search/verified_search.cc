#include "planner/search/verified_search.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "planner/fit/closed_form.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/memory_of_job.h"
#include "planner/fit/verdict.h"
#include "planner/job/job_plan.h"
#include "planner/search/job_choice.h"
#include "program/compose/composer.h"

namespace strata::planner {
namespace {

// Searches after the first, each within less memory.
constexpr int kMostRounds = 8;
constexpr double kLeastStep = 0.995;

// Of equal micro-batches the first few hold as much as all: interleaved, a pipeline is full with
// two for each stage (arXiv:2104.04473, section 2.2), else with one; gradients are added up from
// the second on.
LayoutChoice WithFewMicroBatches(const LayoutChoice& layout) {
  const int64_t filled = layout.pipeline > 1 ? 2 * layout.pipeline : 3;
  LayoutChoice few = layout;
  few.global_batch = std::min(layout.micro_batches(), filled) * layout.data * layout.micro_batch;
  return few;
}

// The first holds most micro-batches, of the others the second may have a layer more, the last has
// the logits.
std::vector<int> FullestStages(int stages) {
  std::vector<int> fullest = {0};
  if (stages > 2) fullest.push_back(1);
  if (stages > 1) fullest.push_back(stages - 1);
  return fullest;
}

// Whether they differ in nothing but in what blocks save.
bool IsOfFamily(const LayoutChoice& a, const LayoutChoice& b) {
  const auto key = [](const LayoutChoice& l) {
    return std::make_tuple(l.tensor, l.pipeline, l.context, l.chunks, l.expert, l.data, l.replicas,
                           l.sharding, l.micro_batch, l.offload, l.unified);
  };
  return key(a) == key(b);
}

class Verifier {
 public:
  Verifier(const SearchRequest& request, const FitModel& model, const FitDevice& device,
           PassBudget& budget)
      : request_(request),
        model_(model),
        device_(device),
        budget_(budget),
        device_limit_(request.memory_bytes),
        host_limit_(request.machine.network.host_memory_bytes) {}

  absl::StatusOr<SearchResult> Run() {
    SearchRequest tightened = request_;
    std::optional<SearchResult> first;
    for (int round = 0; round <= kMostRounds; ++round) {
      absl::StatusOr<SearchResult> found = Search(tightened);
      if (!found.ok()) {
        if (!first.has_value()) return found.status();
        break;
      }
      const bool all_fit = LookAt(found->plans, tightened);
      if (!first.has_value()) first = *std::move(found);
      if (all_fit) break;
      tightened.most = request_.most + static_cast<int>(accepted_.size());
    }
    return Merged(*std::move(first));
  }

 private:
  // Whether all plans fit that are new; else the limits of the next search are lowered to where
  // the closed form has the first that would fit.
  bool LookAt(const std::vector<RankedPlan>& plans, SearchRequest& tightened) {
    double device = 0, host = 0;
    bool all_fit = true;
    for (RankedPlan plan : plans) {
      if (IsKnown(plan)) continue;
      const StepPrediction predicted = plan.step;
      Measure(plan);
      const double device_share = plan.step.memory_bytes / device_limit_;
      const double host_share = host_limit_ > 0 ? plan.step.host_bytes / host_limit_ : 0;
      if (device_share <= 1 && host_share <= 1) {
        accepted_.push_back(std::move(plan));
        continue;
      }
      all_fit = false;
      if (device_share > 1) device = std::max(device, predicted.memory_bytes / device_share);
      if (host_share > 1) host = std::max(host, predicted.host_bytes / host_share);
      too_large_.push_back(std::move(plan));
    }
    const auto tighten = [](double to, double& limit) {
      if (to > 0) limit = std::min(to, limit * kLeastStep);
    };
    tighten(device, tightened.memory_bytes);
    tighten(host, tightened.machine.network.host_memory_bytes);
    return all_fit;
  }

  bool IsKnown(const RankedPlan& plan) const {
    return std::any_of(accepted_.begin(), accepted_.end(), [&](const RankedPlan& other) {
      return IsOfFamily(other.layout, plan.layout);
    });
  }

  // Replaces the plan's bytes by those of its programs where there are any.
  void Measure(RankedPlan& plan) {
    const LayoutChoice few = WithFewMicroBatches(plan.layout);
    const auto stages = static_cast<int64_t>(FullestStages(static_cast<int>(few.pipeline)).size());
    const int64_t passes = request_.shape.layers * few.micro_batches() * stages / few.pipeline;
    if (passes > std::min(budget_.each, budget_.all) || !HasPrograms(request_.shape, few).ok()) {
      return;
    }
    budget_.all -= passes;
    const absl::StatusOr<ProgramBytes> bytes = BytesOfPrograms(model_, device_, request_, few);
    if (!bytes.ok()) return;
    plan.step.memory_bytes = bytes->device;
    plan.step.host_bytes = plan.layout.offload == Offload::kNone ? 0 : bytes->host;
    plan.bytes_of_programs = true;
  }

  // The first search's answer with what was found to fit.
  SearchResult Merged(SearchResult result) {
    std::sort(accepted_.begin(), accepted_.end(), Faster);
    if (accepted_.size() > static_cast<size_t>(request_.most)) {
      accepted_.resize(static_cast<size_t>(request_.most));
    }
    result.plans = std::move(accepted_);
    for (const RankedPlan& plan : too_large_) {
      const auto share = [&](const RankedPlan& of) { return of.step.memory_bytes; };
      if (result.plans.empty()) {
        if (!result.smallest.has_value() || share(plan) < share(*result.smallest)) {
          result.smallest = plan;
        }
      } else if (Faster(plan, result.plans.front()) && (!result.fastest_too_large.has_value() ||
                                                        Faster(plan, *result.fastest_too_large))) {
        result.fastest_too_large = plan;
      }
    }
    return result;
  }

  const SearchRequest& request_;
  const FitModel& model_;
  const FitDevice& device_;
  PassBudget& budget_;
  const double device_limit_, host_limit_;
  std::vector<RankedPlan> accepted_, too_large_;
};

}  // namespace

absl::StatusOr<ProgramBytes> BytesOfPrograms(const FitModel& model, const FitDevice& device,
                                             const SearchRequest& request,
                                             const LayoutChoice& layout) {
  FitRequest fit{.model = model,
                 .job = JobOf(request.shape, layout, SavedNames(model.spec.family)),
                 .device = device};
  CompleteRequest(fit);
  // Layers that are streamed take what they may have.
  v1::MemorySpec& limits = *fit.job.mutable_memory();
  const auto kept_free =
      static_cast<int64_t>(static_cast<double>(device.bytes) - request.memory_bytes);
  limits.set_device(std::max<int64_t>(1, limits.device() - std::max<int64_t>(0, kept_free)));
  if (const std::string why = WhyNoProgram(fit); !why.empty()) {
    return absl::UnimplementedError(why);
  }
  ASSIGN_OR_RETURN(const DecidedJob decided,
                   DecideJob(fit.job, model.spec, {.scratch = CollectiveScratch}));
  const program::Plan& plan = decided.decision.plan;
  ProgramBytes bytes;
  for (const int stage : FullestStages(plan.groups.pipeline)) {
    ASSIGN_OR_RETURN(const program::StagePrograms programs,
                     program::ComposeStage(decided.decision, stage, decided.update));
    int64_t held = programs.set.arena(plan.tier);
    for (const OverheadItem& item : OverheadOfRank(fit, plan.groups, held)) held += item.bytes;
    const int64_t host = programs.set.arena(program::Tier::kHost);
    const auto [on_device, on_host] =
        device.host_is_device ? std::pair(held + host, int64_t{0}) : std::pair(held, host);
    bytes.device = std::max(bytes.device, static_cast<double>(on_device));
    bytes.host = std::max(bytes.host, static_cast<double>(on_host));
  }
  return bytes;
}

absl::StatusOr<SearchResult> SearchVerified(const SearchRequest& request, const FitModel& model,
                                            const FitDevice& device, PassBudget& budget) {
  return Verifier(request, model, device, budget).Run();
}

}  // namespace strata::planner
