#include "controller/service/requests/auto_decision.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "controller/logic/names.h"
#include "controller/service/requests/errors.h"
#include "planner/cost/job_costs.h"
#include "planner/search/auto_layout.h"
#include "spec/defaults.h"
#include "spec/job_file.h"
#include "spec/problems.h"
#include "spec/validate.h"

namespace strata::controller {
namespace {

constexpr char kInstead[] =
    "give the degrees, such as {data: 2}, or submit with strata submit, "
    "which decides on the machine that it runs on";
// Layers times sequences of a step: the passes of the longest program that is composed. A program
// of so many has some hundred thousand instructions.
constexpr double kMostPasses = 8192;

constexpr char kMoreRoom[] =
    "use more ranks, a shorter train.sequence or a smaller model, or delete the nodes that have "
    "too little (strata delete node)";

// The key that leaves most to decide.
std::string KeyOf(const v1::JobSpec& spec) {
  if (spec.parallel().automatic()) return "parallel";
  const bool micro = spec.train().has_micro_batch() && spec.train().micro_batch() == 0;
  if (micro) return "train.micro_batch";
  return spec.memory().automatic() ? "memory" : "memory.place";
}

absl::Status Refuse(absl::StatusCode code, const char* reason, const v1::JobSpec& spec,
                    const std::string& what) {
  const std::string key = KeyOf(spec);
  const char* const instead = key == "parallel"            ? kInstead
                              : key == "train.micro_batch" ? "give a number"
                                                           : "name the tiers of memory.place";
  return RefuseFields(code, reason, {{key, absl::StrCat(what, " — ", instead)}});
}

absl::StatusOr<v1::JobSpec> ReadWith(const std::string& text, const spec::ReadOptions& options,
                                     const std::vector<std::string>& settings) {
  spec::Problems problems("job");
  spec::ReadOptions more = options;
  more.settings = settings;
  spec::JobFile file = spec::ReadJob(text, more, problems);
  spec::ClosePlaces(file.job);
  if (problems.empty()) spec::CheckSupported(file.job, file.positions, problems);
  if (!problems.empty()) return problems.ToStatus();
  return std::move(file.job);
}

planner::NamedCosts CostsOf(const v1::JobSpec& job) {
  planner::NamedCosts known =
      planner::CatalogCostsOf(planner::Catalog::Shipped(), job, /*standin=*/false);
  if (known.model != nullptr) return known;
  return {std::make_unique<program::RateCostModel>(planner::UsualRates(1)), "usual rates"};
}

}  // namespace

planner::AskRoom RoomOf(std::shared_ptr<const Snapshot> snapshot) {
  return [snapshot = std::move(snapshot)](const std::string& device, int64_t ranks) {
    planner::RankRoom room;
    snapshot->nodes.ForEachAfter("", [&](const SnapshotNode& node) {
      planner::TakeLeast(node.shown, device, ranks, room);
      return true;
    });
    return room;
  };
}

absl::StatusOr<DecidedSpec> DecideAutos(const v1::Job& job, const DecisionFacts& facts,
                                        const std::function<bool()>& gives_up) {
  const v1::JobSpec& spec = job.spec();
  const v1::ModelSpec& model = job.has_model() ? job.model() : spec.model();
  if (!model.has_layers()) {
    return Refuse(absl::StatusCode::kInvalidArgument, "INVALID_JOB", spec,
                  "auto needs the model's sizes, which only its config.json tells");
  }
  const std::string text = spec::WriteJob(spec);
  spec::Problems problems("job");
  const spec::ReadOptions options = {.default_name = ShortName(job.name()), .completed = true};
  const spec::JobFile file = spec::ReadJob(text, options, problems);
  const v1::TrainSpec& train = file.job.train();
  const auto sequences = static_cast<double>(train.global_batch()) /
                         static_cast<double>(std::max<int64_t>(1, spec.train().micro_batch()));
  if (static_cast<double>(model.layers()) * sequences > kMostPasses) {
    return Refuse(absl::StatusCode::kResourceExhausted, "DECISION_TOO_LARGE", spec,
                  absl::StrCat("auto: ", model.layers(), " layers for each of ", sequences,
                               " micro-batches are more than the controller looks at for a job (",
                               kMostPasses, " together)"));
  }
  const bool validates = file.job.evaluate().every_steps() > 0;
  const planner::NamedCosts costs = CostsOf(file.job);
  const v1::ResourcesSpec& resources = file.job.resources();
  planner::RankRoom room;
  if (facts.room != nullptr) {
    room = facts.room(resources.device(), std::max<int64_t>(1, resources.ranks()));
  }
  const auto ranked = planner::RankLayouts(
      {.job = &file.job,
       .micro_batch_given = spec.train().micro_batch() > 0,
       .read = [&](const std::vector<std::string>& settings) -> absl::StatusOr<v1::JobSpec> {
         absl::StatusOr<v1::JobSpec> candidate = ReadWith(text, options, settings);
         const bool elsewhere = candidate.ok() && !candidate->model().has_layers();
         if (elsewhere) *candidate->mutable_model() = model;
         return candidate;
       },
       .costs = costs.model.get(),
       .evaluate_sequences = validates ? file.job.evaluate().sequences() : 0,
       .room = room,
       .device = resources.device(),
       .learned = facts.learned,
       .gives_up = gives_up});
  if (absl::IsDeadlineExceeded(ranked.status())) {
    return Refuse(absl::StatusCode::kResourceExhausted, "DECISION_TOO_LARGE", spec,
                  std::string(ranked.status().message()));
  }
  if (!ranked.ok()) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "INFEASIBLE", spec,
                  std::string(ranked.status().message()));
  }
  const planner::Candidate& best = ranked->front();
  if (!best.has_room) {
    return RefuseFields(
        absl::StatusCode::kFailedPrecondition, "INFEASIBLE",
        {{KeyOf(spec),
          absl::StrCat("of ", ranked->size(), " layouts none fits the nodes; with the least ",
                       planner::WhyNoRoom(best, room), " — ", kMoreRoom)}});
  }
  absl::StatusOr<v1::JobSpec> decided = ReadWith(text, options, best.settings);
  if (!decided.ok()) return decided.status();
  return DecidedSpec{
      *std::move(decided),
      absl::StrCat("auto was decided: ", best.words.ToText(), ", ",
                   common::FormatShortSeconds(best.seconds), " a step by ", costs.name,
                   best.correction.has_value()
                       ? absl::StrCat(" (", planner::ToText(*best.correction), ")")
                       : "",
                   best.fits ? "" : ", though it does not keep the limits of memory")};
}

bool AutoDecider::IsDue(const Core& core, const std::string& owner,
                        const v1::CreateJobRequest& request) {
  if (!planner::LeavesToDecide(request.job().spec())) return false;
  const v1::JobRecord* const known = core.FindJob(request.job().name());
  return known == nullptr || request.request_id().empty() ||
         known->request_id() != request.request_id() || known->owner() != owner;
}

absl::StatusOr<DecidedSpec> AutoDecider::Decide(const v1::Job& job, const DecisionFacts& facts,
                                                const std::function<bool()>& cancelled) {
  constexpr double kMostSeconds = 20, kRetrySeconds = 5;
  const std::unique_lock one(deciding_, std::try_to_lock);
  if (!one.owns_lock()) {
    return WithRetry(Refuse(absl::StatusCode::kResourceExhausted, "DECISION_BUSY", job.spec(),
                            "auto: another job's layout is being decided, try again"),
                     kRetrySeconds);
  }
  const double until = clock_->Now() + kMostSeconds;
  return DecideAutos(job, facts, [&] { return cancelled() || clock_->Now() > until; });
}

}  // namespace strata::controller
