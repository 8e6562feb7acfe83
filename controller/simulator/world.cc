#include "controller/simulator/world.h"

#include <utility>

#include "common/check.h"
#include "controller/simulator/failures.h"
#include "controller/simulator/streams.h"

namespace strata::simulator {
namespace {

constexpr double kFullCheckSeconds = 6 * 3600;
constexpr double kStarvationSeconds = 600;
constexpr int64_t kEventsPerWord = 1 << 14;  // between two words about the progress
constexpr double kAskAgain = 2;              // a submission that found no controller

}  // namespace

World::World(const Options& asked)
    : options(asked),
      failures(asked.seed, kFailures),
      latencies(asked.seed, kLatencies),
      operators(asked.seed, kOperators),
      host(&events, asked.cluster, asked.waiting_tick_seconds, asked.bug),
      invariants(*this),
      statistics(*this),
      training(*this),
      fleet(*this),
      faults(*this) {}

void World::Submit(JobRun& run) {
  const v1::CreateJobRequest request = RequestOf(run.job);
  const absl::StatusOr<v1::JobRecord> job = host.Create(request);
  if (absl::IsUnavailable(job.status())) {
    return events.After(kAskAgain, [this, &run] { Submit(run); });
  }
  if (!job.ok()) return statistics.OnRefused(run, job.status());
  statistics.OnSubmitted(run);
  if (run.job.cancel_seconds.has_value()) {
    events.After(*run.job.cancel_seconds,
                 [this, name = request.job().name()] { host.Cancel(name); });
  }
}

void World::OnChanged(const v1::JobRecord& job) {
  JobRun* run = training.FindJob(job.name());
  if (run == nullptr) return;
  invariants.OnChanged(*run, job);
  statistics.OnChanged(*run, job);
}

void World::Run(const std::function<void(double)>& on_progress) {
  const double end = options.days * kDaySeconds;
  host.set_listener(
      {.on_changed = [this](const v1::JobRecord& job) { OnChanged(job); },
       .on_messages =
           [this](std::vector<controller::Outgoing> messages) {
             events.After(options.latencies.message,
                          [this, messages = std::move(messages)] { fleet.OnMessages(messages); });
           },
       .on_start =
           [this] {
             invariants.OnControllerStart();
             fleet.OnControllerStart();
           }});
  host.Start();
  const absl::Status applied = host.Apply(options.policy);
  STRATA_CHECK(applied.ok());  // see Options
  fleet.Begin();
  host.Flush();
  for (const SimJob& job : options.jobs) {
    JobRun& run = training.AddJob(job);
    events.At(job.submit_seconds, [this, &run] { Submit(run); });
  }
  faults.Begin();
  double next_check = kFullCheckSeconds, next_starvation = kStarvationSeconds;
  while (invariants.violation().empty() && events.RunNextBefore(end)) {
    host.Flush();
    if (events.Now() >= next_starvation) {
      invariants.CheckStarvation();
      next_starvation = events.Now() + kStarvationSeconds;
    }
    if (events.Now() >= next_check) {
      invariants.CheckAll();
      next_check = events.Now() + kFullCheckSeconds;
    }
    if (on_progress && events.done() % kEventsPerWord == 0) on_progress(events.Now() / end);
  }
  if (invariants.violation().empty()) invariants.CheckAll();
}

}  // namespace strata::simulator
