#include "planner/search/verified_search.h"

#include <algorithm>
#include <map>
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

// Searches after the first, each knowing more of the programs.
constexpr int kMostRounds = 16;
// The closed form has at most so much more than programs hold.
constexpr double kMostAbove = 2;
// Passes of layers that are streamed take as much longer to compose.
constexpr int64_t kStreamedPass = 8;

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

// Layouts whose programs are beside the closed form by about as much: siblings differ in what
// blocks save alone, a family in micro-batch and virtual stages too.
auto FamilyOf(const LayoutChoice& l) {
  return std::make_tuple(l.tensor, l.pipeline, l.context, l.data, l.replicas, l.sharding, l.offload,
                         l.unified);
}
auto SiblingsOf(const LayoutChoice& l) {
  return std::tuple_cat(FamilyOf(l), std::make_tuple(l.chunks, l.expert, l.micro_batch));
}
auto LayoutOf(const LayoutChoice& l) {
  return std::tuple_cat(SiblingsOf(l), std::make_tuple(l.recompute, l.saved, l.listed_layers));
}

MoreBytes Least(const MoreBytes& a, const MoreBytes& b) {
  return {std::min(a.device, b.device), std::min(a.host, b.host)};
}
MoreBytes Most(const MoreBytes& a, const MoreBytes& b) {
  return {std::max(a.device, b.device), std::max(a.host, b.host)};
}

class Verifier {
 public:
  Verifier(const SearchRequest& request, const FitModel& model, const FitDevice& device,
           PassBudget& budget)
      : request_(request), model_(model), device_(device), budget_(budget) {
    request_.more_bytes = [this](const LayoutChoice& layout) { return MoreOf(layout); };
  }

  // Searches until it learns nothing more of what it found: all plans fit by their programs, and
  // what would be faster does not.
  absl::StatusOr<SearchResult> Run() {
    for (int round = 0;; ++round) {
      ASSIGN_OR_RETURN(SearchResult found, Search(request_));
      const bool was_spent = spent_;
      bool learnt = false;
      for (const RankedPlan& plan : found.plans) learnt |= Learn(plan);
      for (const auto* large : {&found.fastest_too_large, &found.smallest}) {
        const bool near =
            large->has_value() && (*large)->step.memory_bytes <= kMostAbove * request_.memory_bytes;
        if (near) learnt |= Learn(**large);
      }
      learnt |= spent_ && !was_spent && !families_.empty();
      if (learnt && round < kMostRounds) continue;
      return Told(std::move(found));
    }
  }

 private:
  // Whether the next search would answer otherwise by what the plan's programs hold.
  bool Learn(const RankedPlan& plan) {
    const std::optional<ProgramBytes> bytes = Measure(plan.layout);
    if (!bytes.has_value()) return false;
    const bool fits = Fits(*bytes);
    MoreBytes more = {bytes->device - plan.step.memory_bytes, bytes->host - plan.step.host_bytes};
    // Streamed layers take what there is.
    if (fits && Has(plan.layout.offload, Offload::kParameters)) more = {};
    const MoreBytes before = MoreOf(plan.layout);
    auto& [least, most] =
        families_.try_emplace(FamilyOf(plan.layout), std::pair(more, more)).first->second;
    least = Least(least, more);
    most = Most(most, more);
    MoreBytes& after = siblings_.try_emplace(SiblingsOf(plan.layout), more).first->second;
    // One that fits is there; of those that do not the farthest from the closed form counts.
    if (!fits) after = Most(after, more);
    return after.device != before.device || after.host != before.host;
  }

  // Of a layout that no sibling was measured of, the least of its family, so that nothing is left
  // out unseen; what will not be measured any more, the most.
  MoreBytes MoreOf(const LayoutChoice& layout) const {
    const auto family = families_.find(FamilyOf(layout));
    if (family == families_.end()) return {};
    const auto siblings = siblings_.find(SiblingsOf(layout));
    if (siblings != siblings_.end()) return siblings->second;
    return spent_ ? family->second.second : family->second.first;
  }

  bool Fits(const ProgramBytes& bytes) const {
    const double host = request_.machine.network.host_memory_bytes;
    return bytes.device <= request_.memory_bytes && (host <= 0 || bytes.host <= host);
  }

  // Nothing where the engine has no such programs, or the budget does not reach.
  std::optional<ProgramBytes> Measure(const LayoutChoice& layout) {
    const auto found = measured_.find(LayoutOf(layout));
    if (found != measured_.end()) return found->second;
    const LayoutChoice few = WithFewMicroBatches(layout);
    const auto stages = static_cast<int64_t>(FullestStages(static_cast<int>(few.pipeline)).size());
    const int64_t passes = request_.shape.layers * few.micro_batches() * stages / few.pipeline;
    const int64_t cost = passes * (Has(layout.offload, Offload::kParameters) ? kStreamedPass : 1);
    if (!HasPrograms(request_.shape, few).ok()) return std::nullopt;
    if (passes > budget_.each || cost > budget_.all) {
      spent_ = true;
      return std::nullopt;
    }
    budget_.all -= cost;
    std::optional<ProgramBytes>& bytes = measured_[LayoutOf(layout)];
    if (const auto held = BytesOfPrograms(model_, device_, request_, few); held.ok()) {
      bytes = *held;
      if (layout.offload == Offload::kNone) bytes->host = 0;
    }
    return bytes;
  }

  // With the bytes of programs, and without what has turned out too large.
  SearchResult Told(SearchResult found) {
    const auto tell = [&](RankedPlan& plan) {
      const auto known = measured_.find(LayoutOf(plan.layout));
      plan.bytes_of_programs = known != measured_.end() && known->second.has_value();
      const MoreBytes more = MoreOf(plan.layout);
      plan.step.memory_bytes =
          plan.bytes_of_programs ? known->second->device : plan.step.memory_bytes + more.device;
      plan.step.host_bytes =
          plan.bytes_of_programs ? known->second->host : plan.step.host_bytes + more.host;
    };
    for (RankedPlan& plan : found.plans) tell(plan);
    if (found.fastest_too_large.has_value()) tell(*found.fastest_too_large);
    if (found.smallest.has_value()) tell(*found.smallest);
    std::erase_if(found.plans, [&](const RankedPlan& plan) {
      return plan.bytes_of_programs && !Fits({plan.step.memory_bytes, plan.step.host_bytes});
    });
    return found;
  }

  using Family = decltype(FamilyOf(LayoutChoice()));
  using Siblings = decltype(SiblingsOf(LayoutChoice()));
  using Layout = decltype(LayoutOf(LayoutChoice()));

  SearchRequest request_;
  const FitModel& model_;
  const FitDevice& device_;
  PassBudget& budget_;
  bool spent_ = false;  // a plan was not measured, as the budget did not reach
  std::map<Family, std::pair<MoreBytes, MoreBytes>> families_;  // the least and the most of each
  std::map<Siblings, MoreBytes> siblings_;
  std::map<Layout, std::optional<ProgramBytes>> measured_;
};

}  // namespace

absl::StatusOr<ProgramBytes> BytesOfPrograms(const FitModel& model, const FitDevice& device,
                                             const SearchRequest& request,
                                             const LayoutChoice& layout) {
  RETURN_IF_ERROR(HasPrograms(request.shape, layout));
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
