#include "controller/simulator/statistics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "controller/simulator/ettr.h"
#include "controller/simulator/failures.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

Waits SumUp(std::vector<double> waits) {
  Waits sum;
  if (waits.empty()) return sum;
  std::sort(waits.begin(), waits.end());
  sum.jobs = static_cast<int64_t>(waits.size());
  for (const double wait : waits) sum.mean += wait / static_cast<double>(waits.size());
  // The smallest value that at least so many per cent do not exceed.
  const auto rank = [&](double part) {
    return waits[static_cast<size_t>(std::ceil(part * static_cast<double>(waits.size()))) - 1];
  };
  sum.p50 = rank(0.5);
  sum.p99 = rank(0.99);
  sum.longest = waits.back();
  return sum;
}

}  // namespace

Statistics::Statistics(World& world) : world_(world) {
  for (const Cause& cause : world.options.causes) report_.causes.push_back({.name = cause.name});
  pauses_.assign(report_.causes.size(), 0);
}

void Statistics::Integrate() {
  const double seconds = world_.events.Now() - integrated_at_;
  integrated_at_ = world_.events.Now();
  training_seconds_ += seconds * static_cast<double>(training_);
  held_seconds_ += seconds * static_cast<double>(held_);
}

void Statistics::OnHeld(int devices) {
  Integrate();
  held_ += devices;
}

void Statistics::OnSubmitted(JobRun& job) {
  job.tally.submitted = true;
  ++report_.submitted;
}

void Statistics::OnRefused(JobRun& job, const absl::Status& why) {
  if (report_.refused++ == 0) {
    report_.first_refusal = job.job.name + ": " + std::string(why.message());
  }
}

void Statistics::OnChanged(JobRun& job, const v1::JobRecord& record) {
  JobTally& tally = job.tally;
  const v1::Job::State before = tally.state;
  tally.state = record.state();
  if (record.epoch() != tally.epoch) CountPlaces(tally, record);
  tally.epoch = record.epoch();
  if (before == record.state()) return;
  const double now = world_.events.Now();
  switch (record.state()) {
    case v1::Job::QUEUED:
      if (before != v1::Job::STATE_UNSPECIFIED) ++report_.preemptions;
      if (tally.trained_at.has_value()) tally.queued_at = now;
      break;
    case v1::Job::STARTING:
      if (!tally.wait_seconds.has_value()) {
        tally.wait_seconds = now - job.job.submit_seconds;
        waits_[job.job.priority].push_back(*tally.wait_seconds);
        ++report_.started;
      }
      if (tally.recovers_since.has_value()) node_waits_.push_back(now - *tally.recovers_since);
      break;
    case v1::Job::RECOVERING:
      tally.recovers_since = now;
      if (record.events_size() > 0) {
        ++report_.restarts_by_told_cause[record.events(record.events_size() - 1).cause()];
      }
      break;
    case v1::Job::SUCCEEDED:
      ++report_.succeeded;
      break;
    case v1::Job::FAILED:
      ++report_.failed;
      break;
    case v1::Job::CANCELLED:
      ++report_.cancelled;
      break;
    default:
      break;
  }
  if (before == v1::Job::RECOVERING) tally.recovers_since.reset();
  if (before == v1::Job::QUEUED && tally.queued_at.has_value()) {
    tally.queued_in_pause += now - *tally.queued_at;
    tally.queued_seconds += now - *tally.queued_at;
    tally.queued_at.reset();
  }
}

// What a new epoch keeps of the places of the one before.
void Statistics::CountPlaces(JobTally& tally, const v1::JobRecord& record) {
  std::vector<std::pair<std::string, int>> places;
  std::set<std::string> nodes, old_nodes;
  for (const v1::RankPlace& place : record.placement()) {
    places.push_back({place.node(), place.device()});
    nodes.insert(place.node());
  }
  if (tally.nodes == 0) tally.nodes = static_cast<int64_t>(nodes.size());
  if (tally.state == v1::Job::STARTING && !tally.places.empty() && !tally.queued_at.has_value()) {
    for (const auto& [node, device] : tally.places) old_nodes.insert(node);
    for (const std::string& node : nodes) {
      if (!old_nodes.contains(node)) ++report_.replaced_nodes;
    }
    const size_t both = std::min(places.size(), tally.places.size());
    for (size_t rank = 0; rank < both; ++rank) {
      ++(places[rank] == tally.places[rank] ? report_.kept_places : report_.moved_places);
    }
  }
  tally.places = std::move(places);
}

void Statistics::OnTraining(EpochRun& run) {
  Integrate();
  training_ += run.ranks;
  JobTally& tally = run.job->tally;
  const double now = world_.events.Now();
  tally.trains_since = now;
  if (!tally.trained_at.has_value()) tally.trained_at = now;
  if (!tally.paused_at.has_value()) return;
  const double pause = now - *tally.paused_at - tally.queued_in_pause;
  tally.paused_at.reset();
  tally.queued_in_pause = 0;
  if (tally.pause_cause == kPlanned) {
    tally.planned_seconds += pause;
    ++tally.planned;
    return;
  }
  ++tally.interruptions;
  ++report_.causes[tally.pause_cause].interrupted;
  pauses_[tally.pause_cause] += pause;
}

void Statistics::OnPause(EpochRun& run, int cause) {
  JobTally& tally = run.job->tally;
  if (!tally.trains_since.has_value()) return;
  Integrate();
  training_ -= run.ranks;
  tally.trains_since.reset();
  tally.paused_at = world_.events.Now();
  tally.pause_cause = cause;
  if (cause == kPlanned) return;
  const int64_t lost = world_.training.StepOf(run) - run.job->committed;
  report_.lost_seconds += static_cast<double>(lost) * run.job->job.seconds_per_step;
}

void Statistics::OnCommitted(EpochRun& run, int64_t step) {
  JobTally& tally = run.job->tally;
  if (step != run.written || !tally.trained_at.has_value()) return;
  tally.life_seconds = run.written_at - *tally.trained_at - tally.queued_seconds;
  tally.life_planned_seconds = tally.planned_seconds;
  tally.productive_seconds = static_cast<double>(step) * run.job->job.seconds_per_step;
}

void Statistics::OnFailure(int cause, bool /*of_a_job*/) { ++report_.causes[cause].happened; }

void Statistics::SumUpWaits() {
  std::vector<double> all;
  for (const auto& [priority, waits] : waits_) {
    report_.waits[priority] = SumUp(waits);
    all.insert(all.end(), waits.begin(), waits.end());
  }
  report_.all_waits = SumUp(std::move(all));
  report_.node_waits = SumUp(node_waits_);
}

void Statistics::SumUpJobs() {
  std::vector<Cause> losing;
  for (const Cause& cause : world_.options.causes) {
    if (cause.effect != Effect::kMaintenance) losing.push_back(cause);
  }
  const double rate = RatePerNodeSecond(losing, world_.options.failure_rate);
  report_.rate_per_node_day = rate * kDaySeconds;
  double weight = 0, unplanned_weight = 0;
  for (const auto& job : world_.training.jobs()) {
    const JobTally& tally = job->tally;
    if (!tally.trained_at.has_value()) continue;
    JobReport& told = report_.jobs.emplace_back();
    told.name = job->job.name;
    told.state = v1::Job::State_Name(tally.state);
    told.nodes = tally.nodes;
    told.ranks = job->job.ranks();
    told.interruptions = tally.interruptions;
    told.planned = tally.planned;
    told.life_seconds = tally.life_seconds;
    told.planned_seconds = tally.life_planned_seconds;
    told.productive_seconds = tally.productive_seconds;
    if (told.life_seconds <= 0) continue;
    const double interval = static_cast<double>(job->job.save_every()) * job->job.seconds_per_step;
    const double unplanned = told.life_seconds - told.planned_seconds;
    const auto nodes = static_cast<double>(told.nodes);
    told.ettr = told.productive_seconds / told.life_seconds;
    told.ettr_unplanned = told.productive_seconds / unplanned;
    told.ettr_formula =
        ExpectedEttr(nodes * rate, interval, job->job.checkpoint_stall, report_.pause_seconds);
    weight += nodes * told.life_seconds;
    unplanned_weight += nodes * unplanned;
    report_.ettr += nodes * told.productive_seconds;
    report_.ettr_formula += nodes * unplanned * told.ettr_formula;
  }
  if (weight <= 0) return;
  report_.ettr_unplanned = report_.ettr / unplanned_weight;
  report_.ettr_formula /= unplanned_weight;
  report_.ettr /= weight;
}

Report Statistics::Finish() {
  Integrate();
  const ControllerHost& host = world_.host;
  report_.violation = world_.invariants.violation();
  report_.violation_event = world_.invariants.violation_event();
  report_.virtual_seconds = world_.events.Now();
  for (const SimNode& node : world_.fleet.nodes()) report_.devices += node.devices;
  report_.nodes = static_cast<int64_t>(world_.fleet.nodes().size());
  const double whole = static_cast<double>(report_.devices) * world_.events.Now();
  report_.utilisation = whole > 0 ? training_seconds_ / whole : 0;
  report_.allocation = whole > 0 ? held_seconds_ / whole : 0;
  double seconds = 0;
  int64_t pauses = 0;
  for (size_t cause = 0; cause < pauses_.size(); ++cause) {
    CauseReport& told = report_.causes[cause];
    seconds += pauses_[cause];
    pauses += told.interrupted;
    if (told.interrupted > 0) {
      told.pause_seconds = pauses_[cause] / static_cast<double>(told.interrupted);
    }
  }
  report_.pause_seconds = pauses > 0 ? seconds / static_cast<double>(pauses) : 0;
  SumUpWaits();
  SumUpJobs();
  report_.events = world_.events.done();
  report_.inputs = host.inputs();
  report_.commits = host.commits();
  report_.writes = host.writes();
  report_.written_bytes = host.written_bytes();
  report_.messages = host.messages();
  report_.ticks = host.ticks();
  report_.full_checks = world_.invariants.full_checks();
  return report_;
}

}  // namespace strata::simulator
