#include "client/decide_layout.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/machine.h"
#include "client/machine_profile.h"
#include "common/clock.h"
#include "common/gpu_standin.h"
#include "common/host_name.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "planner/cost/device_cost_model.h"
#include "planner/cost/disk_choice.h"
#include "planner/cost/job_costs.h"
#include "planner/cost/profile_cost_model.h"
#include "planner/fit/devices.h"
#include "planner/job/job_plan.h"
#include "planner/job/stream_choice.h"
#include "planner/search/saved_names.h"

namespace strata::client {
namespace {

struct Costs {
  std::unique_ptr<program::CostModel> model;
  std::string notice;      // what of them is not this machine's, and why
  bool elsewhere = false;  // the job is for GPUs that nobody has measured here
};

// Where the job is for GPUs: of those of this machine.
absl::StatusOr<Costs> DeviceCostsOf(const v1::Profile& profile, const v1::JobSpec& job,
                                    int64_t ranks, const v1::RankProfile* host,
                                    const v1::DiskRate* disks) {
  const bool standin = common::UsesGpuStandin();
  ASSIGN_OR_RETURN(const v1::DeviceProfile* const device,
                   planner::FindDevice(profile, {.host = common::HostName(),
                                                 .device = job.resources().device(),
                                                 .standin = standin}));
  const bool lacks = standin || (ranks > 1 && device->communications().empty());
  return Costs{std::make_unique<planner::DeviceCostModel>(
                   *device,
                   planner::BesideDevice{
                       .host = host, .disks = disks, .usual = planner::OrdinaryRates(true)}),
               lacks ? planner::DescribeTimes(*device, ranks) : ""};
}

// Of ranks that are all on this machine, and share the disks that the job names.
Costs CostsOf(const std::optional<v1::Profile>& profile, const v1::JobSpec& job, int64_t ranks,
              int64_t threads) {
  const bool on_device = planner::OnAccelerator(job);
  const auto usual = [&](absl::string_view why) {
    planner::NamedCosts known =
        planner::CatalogCostsOf(planner::Catalog::Shipped(), job, common::UsesGpuStandin());
    if (known.model != nullptr) {
      return Costs{std::move(known.model), absl::StrCat(known.name, ", as ", why), true};
    }
    if (on_device) {
      return Costs{
          std::make_unique<program::RateCostModel>(planner::OrdinaryRates(/*accelerator=*/true)),
          absl::StrCat("usual rates of a GPU, as ", why), true};
    }
    return Costs{std::make_unique<program::RateCostModel>(planner::UsualRates(threads)),
                 absl::StrCat("usual rates, as ", why)};
  };
  if (!profile.has_value()) return usual("this machine was not measured: strata calibrate");
  const auto measured = planner::FindRanks(
      *profile,
      {.host = common::HostName(), .isa = profile->isa(), .ranks = ranks, .threads = threads});
  if (!measured.ok() && !on_device) return usual(measured.status().message());
  const v1::RankProfile* const host = measured.ok() ? *measured : nullptr;
  std::vector<std::string> directories;
  for (const v1::SsdPath& path : job.memory().ssd()) directories.push_back(path.path());
  absl::StatusOr<v1::DiskRate> rate = absl::NotFoundError("");
  if (!directories.empty()) rate = planner::ChooseDiskRate(*profile, directories, ranks);
  const v1::DiskRate* const disks = rate.ok() ? &*rate : nullptr;
  Costs costs;
  if (on_device) {
    absl::StatusOr<Costs> device = DeviceCostsOf(*profile, job, ranks, host, disks);
    if (!device.ok()) return usual(device.status().message());
    costs = *std::move(device);
  } else {
    costs.model = std::make_unique<planner::ProfileCostModel>(*host, disks);
  }
  if (!directories.empty() && !rate.ok()) {
    absl::StrAppend(&costs.notice, costs.notice.empty() ? "" : "; ",
                    "bytes on SSD at the rate of copies in memory, as ", rate.status().message());
  }
  return costs;
}

// As job files write it.
std::string Word(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

// Says how far the ranking is after a second, and then every ten.
class Patience {
 public:
  explicit Patience(const DecisionBasis& basis)
      : say_(basis.say), clock_(basis.clock != nullptr ? *basis.clock : own_) {}

  void Tell(int64_t looked_at, int64_t of) {
    if (say_ == nullptr || clock_.Now() < next_) return;
    next_ = clock_.Now() + 10;
    say_(absl::StrCat("auto: looking at layouts, ", looked_at, " of ", of, " so far"));
  }

 private:
  const std::function<void(const std::string&)>& say_;
  const common::MonotonicClock own_{};
  const common::Clock& clock_;
  double next_ = clock_.Now() + 1;
};

}  // namespace

absl::StatusOr<RankedLayouts> RankHere(const spec::JobFile& file, const ReadWith& read,
                                       const DecisionBasis& basis,
                                       const std::vector<planner::KeptKey>& kept) {
  ASSIGN_OR_RETURN(const std::optional<v1::Profile> measured, LoadProfile(basis.profile));
  const int64_t ranks = std::max<int64_t>(1, file.job.resources().ranks());
  const int64_t threads = ThreadsPerRank(ranks);
  Costs costs = CostsOf(measured, file.job, ranks, threads);
  const bool validates = file.job.evaluate().every_steps() > 0;
  RankedLayouts ranked{.notice = std::move(costs.notice)};
  const std::string& device = file.job.resources().device();
  if (basis.room != nullptr) ranked.room = basis.room(device, ranks);
  if (planner::OnAccelerator(file.job) && ranked.room.device == 0) {
    // No node has told of its cards: they are as large as their kind is.
    if (const auto card = planner::DeviceOf(device, 0); card.ok()) {
      ranked.room.device = card->bytes;
      ranked.room.device_node = "that kind";
      ranked.room.kind = device;
    }
  }
  Patience patience(basis);
  planner::AutoRequest request = {
      .job = &file.job,
      .micro_batch_given = file.positions.Has("train.micro_batch"),
      .kept = kept,
      .read = read,
      .costs = costs.model.get(),
      .threads = threads,
      .evaluate_sequences = validates ? file.job.evaluate().sequences() : 0,
      // What hosts of GPUs elsewhere have is theirs to tell.
      .memory_bytes = costs.elsewhere ? 0 : basis.memory_bytes,
      .room = ranked.room,
      .device = device,
      .on_progress = [&](int64_t looked_at, int64_t of) { patience.Tell(looked_at, of); }};
  if (basis.learned != nullptr) request.learned = basis.learned();
  auto candidates = planner::RankLayouts(request);
  if (candidates.ok()) {
    ranked.candidates = *std::move(candidates);
  } else {
    ranked.why_none = candidates.status();
  }
  return ranked;
}

std::vector<planner::KeptKey> KeptOf(const spec::JobFile& file) {
  using v1::ParallelSpec;
  const ParallelSpec& parallel = file.job.parallel();
  std::vector<planner::KeptKey> kept;
  const auto keep = [&](const char* key, std::string value, const char* with = "") {
    if (file.positions.Has(absl::StrCat("parallel.", key))) {
      kept.push_back({key, std::move(value), with});
    }
  };
  keep("virtual_shards",
       parallel.virtual_shards() == 0 ? "off" : absl::StrCat(parallel.virtual_shards()));
  keep("recompute", planner::RecomputeText(parallel.recompute()));
  keep("micro_order", Word(ParallelSpec::MicroOrder_Name(parallel.micro_order()), "MICRO_ORDER_"));
  keep("update_policy",
       Word(ParallelSpec::UpdatePolicy_Name(parallel.update_policy()), "UPDATE_POLICY_"));
  keep("spool", Word(ParallelSpec::Spool_Name(parallel.spool()), "SPOOL_"));
  keep("context_method",
       Word(ParallelSpec::ContextMethod_Name(parallel.context_method()), "CONTEXT_METHOD_"),
       "context");
  keep(
      "pipeline_schedule",
      Word(ParallelSpec::PipelineSchedule_Name(parallel.pipeline_schedule()), "PIPELINE_SCHEDULE_"),
      "pipeline");
  keep("virtual_stages", absl::StrCat(parallel.virtual_stages()), "pipeline");
  return kept;
}

std::vector<std::string> NoticesOf(const RankedLayouts& ranked) {
  const planner::Candidate& best = ranked.candidates.front();
  std::string text = absl::StrCat("auto: ", best.words.ToText(), ", predicted ",
                                  common::FormatShortSeconds(best.seconds), " a step",
                                  best.fits ? "" : ", but does not fit");
  if (best.correction.has_value()) {
    absl::StrAppend(&text, " (", planner::ToText(*best.correction), ")");
  }
  if (ranked.candidates.size() > 1) {
    const planner::Candidate& next = ranked.candidates[1];
    absl::StrAppend(&text, "; next of ", ranked.candidates.size(), ": ", next.words.ToText(), ", ",
                    next.fits ? common::FormatShortSeconds(next.seconds) : "which does not fit");
  }
  std::vector<std::string> notices = {std::move(text)};
  if (!ranked.notice.empty()) {
    notices.push_back(absl::StrCat("auto: ", ranked.notice));
  }
  return notices;
}

}  // namespace strata::client
