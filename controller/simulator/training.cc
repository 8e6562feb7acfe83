#include "controller/simulator/training.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

constexpr double kReportAgain = 5;
constexpr double kDust = 1e-6;  // of a step, lost in sums of seconds

}  // namespace

JobRun& Training::AddJob(const SimJob& job) {
  jobs_.push_back(std::make_unique<JobRun>());
  JobRun& run = *jobs_.back();
  run.job = job;
  run.index = static_cast<int>(jobs_.size()) - 1;
  by_name_[absl::StrCat("jobs/", job.name)] = &run;
  return run;
}

JobRun* Training::FindJob(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

EpochRun* Training::Find(const v1::JobEpoch& epoch) {
  const auto found = runs_.find({epoch.job(), epoch.epoch()});
  return found == runs_.end() ? nullptr : &found->second;
}

EpochRun& Training::Ensure(const v1::PrepareEpoch& prepare) {
  const auto [found, added] = runs_.try_emplace({prepare.epoch().job(), prepare.epoch().epoch()});
  EpochRun& run = found->second;
  if (!added) return run;
  run.epoch = prepare.epoch();
  run.job = FindJob(prepare.epoch().job());
  run.number = ++last_number_;
  run.ranks = prepare.ranks();
  run.begin_step = prepare.checkpoint().step();
  run.seconds_per_step =
      run.job->job.seconds_per_step * static_cast<double>(run.job->job.ranks()) / run.ranks;
  run.job->epoch = std::max(run.job->epoch, prepare.epoch().epoch());
  world_.invariants.OnEpoch(run);
  return run;
}

void Training::AddPart(EpochRun& run, int node, int ranks) {
  run.nodes.push_back(node);
  run.live += ranks;
}

void Training::RemovePart(EpochRun& run, int node, int ranks) {
  std::erase(run.nodes, node);
  run.live -= ranks;
  if (run.nodes.empty()) runs_.erase({run.epoch.job(), run.epoch.epoch()});
}

void Training::Loaded(EpochRun& run, int ranks) {
  run.loaded += ranks;
  if (run.loaded == run.ranks && run.phase == EpochRun::Phase::kStarting) Begin(run);
}

void Training::Begin(EpochRun& run) {
  run.phase = EpochRun::Phase::kTraining;
  run.from = run.begin_step;
  run.since = world_.events.Now();
  world_.invariants.OnTraining(run);
  world_.statistics.OnTraining(run);
  world_.fleet.SayRunning(run);
  Plan(run);
}

// The next checkpoint, the last step, or the one to stop after.
void Training::Plan(EpochRun& run) {
  const SimJob& job = run.job->job;
  const int64_t every = job.save_every();
  int64_t next = std::min((run.from / every + 1) * every, job.steps);
  if (run.last_step.has_value()) next = std::min(next, std::max(*run.last_step, run.from));
  const double at = run.since + static_cast<double>(next - run.from) * run.seconds_per_step;
  world_.events.At(at, [this, epoch = run.epoch, next, plan = ++run.plan] {
    EpochRun* planned = Find(epoch);
    if (planned != nullptr && planned->plan == plan) Save(*planned, next);
  });
}

void Training::Save(EpochRun& run, int64_t step) {
  run.phase = EpochRun::Phase::kSaving;
  run.from = step;
  run.since = world_.events.Now();
  world_.events.After(run.job->job.checkpoint_stall,
                      [this, epoch = run.epoch, step, plan = ++run.plan] {
                        EpochRun* saving = Find(epoch);
                        if (saving != nullptr && saving->plan == plan) Saved(*saving, step);
                      });
}

void Training::Saved(EpochRun& run, int64_t step) {
  const SimJob& job = run.job->job;
  run.since = world_.events.Now();
  const bool last = step >= job.steps || (run.last_step.has_value() && step >= *run.last_step);
  run.phase = last ? EpochRun::Phase::kFinishing : EpochRun::Phase::kTraining;
  if (!last) Plan(run);
  const bool skipped =
      world_.options.bug == PlantedBug::kSkipsCheckpoints && step / job.save_every() % 4 != 0;
  if (skipped && !last) return;
  run.saved = run.written = step;
  run.written_at = world_.events.Now();
  world_.fleet.SayWritten(run, step);
}

void Training::OnAnswer(EpochRun& run, const v1::CommitAnswer& answer) {
  if (answer.step() == run.saved) run.saved = 0;
  if (!answer.accepted()) return;
  world_.invariants.OnCommitted(run, answer.step());
  run.job->committed = std::max(run.job->committed, answer.step());
  world_.statistics.OnCommitted(run, answer.step());
  if (run.phase == EpochRun::Phase::kFinishing && answer.step() >= run.from) Leave(run);
}

// All ranks end, after their last checkpoint.
void Training::Leave(EpochRun& run) {
  if (run.leaving) return;
  run.leaving = true;
  const bool finished = run.from >= run.job->job.steps;
  world_.statistics.OnPause(run, kPlanned);
  const double word = world_.options.latencies.word;
  world_.events.After(word, [this, epoch = run.epoch, finished] {
    EpochRun* over = Find(epoch);
    if (over == nullptr) return;
    world_.fleet.EndAll(*over, finished ? v1::Finished::SUCCEEDED : v1::Finished::INTERRUPTED);
  });
}

void Training::StopAfter(EpochRun& run, int64_t step) {
  if (run.last_step.has_value()) return;
  run.last_step = step;
  if (run.phase != EpochRun::Phase::kTraining) return;
  if (step > run.from) return Plan(run);
  run.phase = EpochRun::Phase::kFinishing;  // that one is written
  ++run.plan;
  if (run.saved == 0) Leave(run);
}

void Training::Break(EpochRun& run, int cause) {
  if (run.phase == EpochRun::Phase::kBroken || run.leaving) return;
  const bool trained = run.phase != EpochRun::Phase::kStarting;
  if (trained) {
    run.job->broken_at_step = StepOf(run);
    world_.statistics.OnPause(run, cause);
  }
  run.phase = EpochRun::Phase::kBroken;
  ++run.plan;
}

void Training::Miss(EpochRun& run, const std::vector<int>& ranks) {
  const bool known = !run.missing.empty();
  run.missing.insert(run.missing.end(), ranks.begin(), ranks.end());
  if (known || run.loaded < run.ranks) return;  // while ranks load, their lease alone tells
  world_.events.After(HangVerdict(run.seconds_per_step),
                      [this, epoch = run.epoch] { ReportMissing(epoch); });
}

void Training::ReportMissing(const v1::JobEpoch& epoch) {
  EpochRun* run = Find(epoch);
  if (run == nullptr) return;
  Fleet& fleet = world_.fleet;
  for (const int index : run->nodes) {
    SimNode& node = fleet.nodes()[index];
    const Part* part = node.Find(run);
    if (!fleet.Hears(node) || part->state != Part::State::kRunning) continue;
    fleet.SayHang(node, *run, run->missing.front(), run->missing,
                  HangVerdict(run->seconds_per_step));
    break;
  }
  world_.events.After(kReportAgain, [this, epoch] { ReportMissing(epoch); });
}

int64_t Training::StepOf(const EpochRun& run) const {
  if (run.phase != EpochRun::Phase::kTraining) return run.from;
  const double steps = (world_.events.Now() - run.since) / run.seconds_per_step;
  return run.from + static_cast<int64_t>(std::floor(steps + kDust));
}

}  // namespace strata::simulator
