#include "controller/metrics/job_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace strata::controller {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

// Steps take milliseconds in tests and minutes on large clusters.
const prometheus::Histogram::BucketBoundaries kStepSeconds = {0.01, 0.03, 0.1, 0.3, 1,
                                                              3,    10,   30,  100, 300};
const prometheus::Histogram::BucketBoundaries kWaitSeconds = {
    0.1, 1, 10, 60, 300, 1800, 3600, 4 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0};
// See v1::JobEvent. These have a series from the job's first start on, so that a first restart is
// an increase.
constexpr std::array<const char*, 9> kCauses = {"trainer_died",  "hang",         "node_lost",
                                                "commit_failed", "start_failed", "cluster_restart",
                                                "preempted",     "drained",      "device_failed"};
constexpr size_t kMostCauses = 16;
constexpr size_t kMostQueues = 64;
constexpr size_t kMostTiers = 8;
constexpr size_t kMostPhases = 24;

prometheus::Family<prometheus::Counter>& Counter(prometheus::Registry& registry, const char* name,
                                                 const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}
prometheus::Family<prometheus::Gauge>& Gauge(prometheus::Registry& registry, const char* name,
                                             const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

std::string IdOf(const std::string& job) { return job.substr(job.find('/') + 1); }

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

bool HasEnded(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

// Counters must not go back, whatever an agent reports.
void Add(prometheus::Counter* counter, double value) {
  if (std::isfinite(value) && value > 0) counter->Increment(value);
}

}  // namespace

JobMetrics::JobMetrics(prometheus::Registry& registry, size_t most_jobs)
    : most_jobs_(most_jobs),
      jobs_by_state_(Gauge(registry, "strata_jobs", "Jobs by state.")),
      queue_wait_(BuildHistogram()
                      .Name("strata_job_queue_wait_seconds")
                      .Help("From a job's creation to its first start, by queue.")
                      .Register(registry)),
      steps_(Counter(registry, "strata_job_steps_total",
                     "Steps finished, those repeated after a restart included.")),
      tokens_(Counter(registry, "strata_job_tokens_total", "Tokens trained on.")),
      flops_(Counter(registry, "strata_job_model_flops_total",
                     "6 x parameters x tokens: what the model needs, recomputation left out.")),
      phase_seconds_(Counter(registry, "strata_job_phase_seconds_total",
                             "Seconds by phase, of rank 0: a step's forward, backward, reduce, … "
                             "(computed or waited for) and other (the rest of it); evaluation; "
                             "checkpoint.")),
      exposed_seconds_(Counter(registry, "strata_job_exposed_seconds_total",
                               "Of these, by phase, what the computation waited for: transfers and "
                               "communication that nothing hid.")),
      background_seconds_(Counter(registry, "strata_job_background_seconds_total",
                                  "Seconds by phase of transfers and communication beside the "
                                  "computation, of rank 0.")),
      communication_seconds_(Counter(registry, "strata_job_exposed_communication_seconds_total",
                                     "Seconds that steps waited for communication.")),
      checkpoints_(Counter(registry, "strata_job_checkpoints_total", "Checkpoints committed.")),
      checkpoint_bytes_(
          Counter(registry, "strata_job_checkpoint_bytes_total", "Bytes of these checkpoints.")),
      restarts_(Counter(registry, "strata_job_restarts_total", "Restarts of the ranks by cause.")),
      lost_steps_(
          Counter(registry, "strata_job_lost_steps_total", "Steps that restarts have to repeat.")),
      loss_(Gauge(registry, "strata_job_loss", "Loss of the last step, nats per token.")),
      validation_loss_(Gauge(registry, "strata_job_validation_loss",
                             "Loss of the last validation pass, nats per token.")),
      grad_norm_(Gauge(registry, "strata_job_grad_norm", "Gradient norm before clipping.")),
      learning_rate_(Gauge(registry, "strata_job_learning_rate", "Of the last step.")),
      last_step_time_(Gauge(registry, "strata_job_last_step_timestamp_seconds",
                            "When the last step's record came.")),
      last_checkpoint_time_(Gauge(registry, "strata_job_checkpoint_last_success_timestamp_seconds",
                                  "When the last checkpoint was committed.")),
      target_steps_(Gauge(registry, "strata_job_target_steps", "Steps the job is to take.")),
      predicted_step_(
          Gauge(registry, "strata_job_predicted_step_seconds", "What the plan says a step takes.")),
      memory_(Gauge(registry, "strata_rank_memory_bytes",
                    "Memory of the worst rank by tier: predicted by the plan, held by arenas, "
                    "measured by the operating system, the process's fixed overhead in it; and of "
                    "fixed arenas what is locked, on huge pages, and on another NUMA node.")),
      tiers_(registry),
      duration_(BuildHistogram()
                    .Name("strata_job_step_duration_seconds")
                    .Help("Seconds per step.")
                    .Register(registry)) {
  for (int state = v1::Job::QUEUED; state <= v1::Job::CANCELLED; ++state) {
    const auto value = static_cast<v1::Job::State>(state);
    by_state_[value] = &jobs_by_state_.Add({{"state", v1::Job::State_Name(value)}});
  }
}

std::unique_ptr<JobMetrics::Series> JobMetrics::MakeSeries(const std::string& job) {
  auto series = std::make_unique<Series>();
  const prometheus::Labels id = {{"job_id", job}};
  const auto add = [&](auto& family, const prometheus::Labels& labels, auto... arguments) {
    auto* metric = &family.Add(labels, arguments...);
    series->removers.push_back([&family, metric] { family.Remove(metric); });
    return metric;
  };
  const auto phase = [&](const char* name) {
    return add(phase_seconds_, {{"job_id", job}, {"phase", name}});
  };
  series->steps = add(steps_, id);
  series->tokens = add(tokens_, id);
  series->flops = add(flops_, id);
  series->communication_seconds = add(communication_seconds_, id);
  series->evaluation_seconds = phase("evaluation");
  series->checkpoint_seconds = phase("checkpoint");
  series->other_seconds = phase("other");
  series->checkpoints = add(checkpoints_, id);
  series->checkpoint_bytes = add(checkpoint_bytes_, id);
  series->lost_steps = add(lost_steps_, id);
  series->duration = add(duration_, id, kStepSeconds);
  for (const char* cause : kCauses) RestartsBy(cause, job, *series);
  series->removers.push_back([this, tiers = &series->tiers] { tiers_.Remove(*tiers); });
  return series;
}

// Null: the job is not known, or has no series because too many jobs do.
JobMetrics::Series* JobMetrics::SeriesOf(const std::string& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return nullptr;
  Known& known = found->second;
  if (known.series != nullptr) return known.series.get();
  if (with_series_ >= most_jobs_ && !ended_.empty() && known.ended_at < 0) {
    const std::string oldest = ended_.begin()->second;
    ended_.erase(ended_.begin());
    Drop(jobs_.at(oldest));
  }
  if (with_series_ >= most_jobs_) return nullptr;
  known.series = MakeSeries(IdOf(job));
  ++with_series_;
  if (known.ended_at >= 0) ended_.insert({known.ended_at, job});
  return known.series.get();
}

void JobMetrics::Drop(Known& known) {
  if (known.series == nullptr) return;
  for (const auto& remove : known.series->removers) remove();
  known.series = nullptr;
  --with_series_;
}

void JobMetrics::SetEnded(const std::string& job, Known& known, double at) {
  ended_.erase({known.ended_at, job});
  known.ended_at = at;
  if (at >= 0 && known.series != nullptr) ended_.insert({at, job});
}

void JobMetrics::Learn(const v1::JobRecord& job, double now) {
  Known& known = jobs_[job.name()];
  known.state = job.state();
  known.parameters = job.parameters();
  known.create_time = Seconds(job.create_time());
  known.waits = job.state() == v1::Job::QUEUED && job.epoch() == 0;
  SetEnded(job.name(), known, HasEnded(job.state()) ? now : -1);
  known.counted_epoch = job.epoch() - 1;
  if (!HasEnded(job.state())) Changed(job, now);
}

// An event tells a restart once there is a newer epoch; before, its cause may still change, and
// there may be none.
void JobMetrics::CountRestarts(const v1::JobRecord& job, Known& known, Series* series) {
  for (const v1::JobEvent& event : job.events()) {
    const bool due = event.epoch() > known.counted_epoch && event.epoch() < job.epoch();
    if (!due || series == nullptr) continue;
    Add(series->lost_steps, static_cast<double>(event.lost_steps()));
    prometheus::Counter* counter = RestartsBy(event.cause(), IdOf(job.name()), *series);
    if (counter != nullptr) counter->Increment();
  }
  known.counted_epoch = std::max(known.counted_epoch, job.epoch() - 1);
}

// Null: too many causes have one.
prometheus::Counter* JobMetrics::RestartsBy(const std::string& cause, const std::string& job,
                                            Series& series) {
  const auto found = series.restarts.find(cause);
  if (found != series.restarts.end()) return found->second;
  if (series.restarts.size() >= kMostCauses) return nullptr;
  prometheus::Counter* counter = &restarts_.Add({{"job_id", job}, {"cause", cause}});
  series.removers.push_back([this, counter] { restarts_.Remove(counter); });
  return series.restarts[cause] = counter;
}

void JobMetrics::ObserveWait(const v1::JobRecord& job, const Known& known) {
  const std::string asked = job.spec().resources().queue();
  std::string queue = asked.empty() ? "default" : asked;
  if (waits_.count(queue) == 0 && waits_.size() >= kMostQueues) queue = "other";
  prometheus::Histogram*& histogram = waits_[queue];
  if (histogram == nullptr) histogram = &queue_wait_.Add({{"queue", queue}}, kWaitSeconds);
  histogram->Observe(std::max(0.0, common::WallSeconds() - known.create_time));
}

void JobMetrics::Changed(const v1::JobRecord& job, double now) {
  if (jobs_.count(job.name()) == 0) {
    Known& created = jobs_[job.name()];
    created.create_time = Seconds(job.create_time());
    created.waits = true;
  }
  Known& known = jobs_[job.name()];
  const bool runs = job.state() == v1::Job::STARTING || job.state() == v1::Job::RUNNING;
  if (std::exchange(known.waits, known.waits && job.state() == v1::Job::QUEUED) && runs) {
    ObserveWait(job, known);
  }
  known.state = job.state();
  known.parameters = job.parameters();
  if (!HasEnded(job.state())) {
    SetEnded(job.name(), known, -1);
  } else if (known.ended_at < 0) {
    SetEnded(job.name(), known, now);
  }
  // A job that never ran has none.
  Series* series = job.epoch() > 0 ? SeriesOf(job.name()) : nullptr;
  if (series != nullptr) {
    Show(target_steps_, static_cast<double>(job.target_step()), job.name(), *series);
  }
  CountRestarts(job, known, series);
}

void JobMetrics::Forget(const std::string& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  SetEnded(job, found->second, -1);
  Drop(found->second);
  jobs_.erase(found);
}

// Phases and other together are the step's seconds, unless rank 0 was slower than it says.
void JobMetrics::Phases(const v1::StepRecord& step, const std::string& job, Series& series) {
  const auto count = [&](std::map<std::string, prometheus::Counter*>& known, Counters& family,
                         const std::string& phase, double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0) return 0.0;
    const auto found = known.find(phase);
    prometheus::Counter* counter = found == known.end() ? nullptr : found->second;
    if (counter == nullptr) {
      if (known.size() >= kMostPhases) return 0.0;
      counter = &family.Add({{"job_id", IdOf(job)}, {"phase", phase}});
      // Phases of the same name as one of the fixed ones share its series.
      const bool own = counter != series.evaluation_seconds &&
                       counter != series.checkpoint_seconds && counter != series.other_seconds;
      if (own) series.removers.push_back([&family, counter] { family.Remove(counter); });
      known[phase] = counter;
    }
    counter->Increment(seconds);
    return seconds;
  };
  double told = 0;
  for (const v1::PurposeSeconds& purpose : step.purposes()) {
    told += count(series.phases, phase_seconds_, purpose.purpose(),
                  purpose.compute_seconds() + purpose.exposed_seconds());
    count(series.exposed, exposed_seconds_, purpose.purpose(), purpose.exposed_seconds());
    count(series.background, background_seconds_, purpose.purpose(), purpose.background_seconds());
  }
  Add(series.other_seconds, step.seconds() - told);
}

void JobMetrics::Memory(const v1::StepRecord& step, const std::string& job, Series& series) {
  for (const v1::TierMemory& tier : step.memory()) {
    const auto set = [&](const char* kind, int64_t bytes) {
      const std::string key = absl::StrCat(tier.tier(), "/", kind);
      const bool fresh = series.memory.count(key) == 0;
      if (fresh && series.memory.size() >= 7 * kMostTiers) return;
      prometheus::Gauge*& gauge = series.memory[key];
      if (fresh) {
        gauge = &memory_.Add({{"job_id", IdOf(job)}, {"tier", tier.tier()}, {"kind", kind}});
        series.removers.push_back([this, added = gauge] { memory_.Remove(added); });
      }
      gauge->Set(static_cast<double>(bytes));
    };
    set("predicted", tier.predicted_bytes());
    set("arena", tier.arena_bytes());
    set("measured", tier.measured_bytes());
    set("overhead", tier.overhead_bytes());
    if (tier.has_locked_bytes()) {
      set("locked", tier.locked_bytes());
      set("huge", tier.huge_bytes());
    }
    if (tier.has_misplaced_bytes()) set("misplaced", tier.misplaced_bytes());
  }
}

// A gauge that nothing was measured for is absent, not 0.
void JobMetrics::Show(Gauges& family, double value, const std::string& job, Series& series) {
  prometheus::Gauge*& gauge = series.gauges[&family];
  if (gauge == nullptr) {
    gauge = &family.Add({{"job_id", IdOf(job)}});
    series.removers.push_back([&family, added = gauge] { family.Remove(added); });
  }
  gauge->Set(value);
}

void JobMetrics::Step(const v1::StepRecord& step, int64_t parameters, const std::string& job,
                      Series& series) {
  const auto tokens = static_cast<double>(step.tokens());
  series.steps->Increment();
  Add(series.tokens, tokens);
  Add(series.flops, 6.0 * static_cast<double>(parameters) * tokens);
  Add(series.communication_seconds, step.exposed_communication_seconds());
  Show(loss_, step.loss(), job, series);
  Show(grad_norm_, step.grad_norm(), job, series);
  Show(learning_rate_, step.learning_rate(), job, series);
  Show(last_step_time_, common::WallSeconds(), job, series);
  if (std::isfinite(step.seconds()) && step.seconds() >= 0) {
    series.duration->Observe(step.seconds());
  }
  if (step.has_validation_loss()) Show(validation_loss_, step.validation_loss(), job, series);
  if (step.has_predicted_seconds()) {
    Show(predicted_step_, step.predicted_seconds(), job, series);
  }
  Phases(step, job, series);
  Memory(step, job, series);
  tiers_.Step(step, IdOf(job), series.tiers);
}

void JobMetrics::Progress(const Effects::Progress& progress) {
  Series* series = SeriesOf(progress.job);
  if (series == nullptr) return;
  const v1::JobProgress& what = progress.progress;
  if (what.has_step()) {
    Step(what.step(), jobs_[progress.job].parameters, progress.job, *series);
  } else if (what.has_evaluation()) {
    Show(validation_loss_, what.evaluation().validation_loss(), progress.job, *series);
    Add(series->evaluation_seconds, what.evaluation().seconds());
  } else if (what.has_checkpoint()) {
    series->checkpoints->Increment();
    Add(series->checkpoint_bytes, static_cast<double>(what.checkpoint().bytes()));
    Add(series->checkpoint_seconds, what.checkpoint().seconds());
    Show(last_checkpoint_time_, common::WallSeconds(), progress.job, *series);
  }
}

void JobMetrics::Tick(double now, double keep_seconds) {
  std::map<v1::Job::State, int64_t> counts;
  for (const auto& [name, known] : jobs_) ++counts[known.state];
  while (!ended_.empty() && now > ended_.begin()->first + keep_seconds) {
    Drop(jobs_.at(ended_.begin()->second));
    ended_.erase(ended_.begin());
  }
  for (const auto& [state, gauge] : by_state_) gauge->Set(static_cast<double>(counts[state]));
}

}  // namespace strata::controller
