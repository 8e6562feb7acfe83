// The queue over time, with right estimates: nobody starves, the head is never delayed by a
// backfill, and more of the cluster is used than first come, first served would use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/order.h"
#include "scheduler/queue/queue.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

struct Arrival {
  double at = 0;
  std::string name;
  int64_t ranks = 1;
  int64_t tensor = 1;
  double seconds = 0;
  int64_t priority = 0;
};

std::vector<Arrival> Arrivals(uint64_t seed, int jobs, int devices, bool priorities) {
  std::mt19937_64 random(seed);
  std::vector<Arrival> arrivals;
  double at = 0;
  for (int j = 0; j < jobs; ++j) {
    Arrival arrival;
    at += static_cast<double>(random() % 1000) / 100;
    arrival.at = at;
    arrival.name = absl::StrCat("j", j);
    arrival.tensor = random() % 3 == 0 ? 4 : 1;
    const int64_t most = random() % 10 == 0 ? devices : devices / 4;
    arrival.ranks = arrival.tensor * (1 + static_cast<int64_t>(random()) %
                                              std::max<int64_t>(1, most / arrival.tensor));
    arrival.ranks = std::clamp<int64_t>(arrival.ranks, arrival.tensor, devices);
    arrival.seconds = 1 + static_cast<double>(random() % 200);
    arrival.priority = priorities ? static_cast<int64_t>(random() % 3) : 0;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

// Starts jobs strictly in order, each when it fits.
Decisions FirstComeFirstServed(const View& view) {
  Decisions decisions;
  Occupancy room = view.occupancy;
  for (const Candidate& candidate : InOrder(view)) {
    auto placement = Place(*view.cluster, room, *candidate.job->shape);
    if (!placement.has_value()) break;
    for (const Device& d : placement->ranks) room.free[d.node] &= ~(uint64_t{1} << d.device);
    const int64_t data = candidate.job->shape->degrees[4];
    decisions.starts.push_back({candidate.job->name, *placement, data, "in order"});
  }
  return decisions;
}

struct Outcome {
  double makespan = 0;
  double utilization = 0;
  double mean_wait = 0;
  int preemptions = 0;
  int failures = 0;
  int shrunk = 0;
  std::set<std::string> finished;
  std::string broken;
};

// What else happens: nodes fail and come back, and a project may not have everything.
struct Trouble {
  uint64_t seed = 0;  // 0: none
  double between = 40;
  double for_seconds = 60;
};

class Loop {
 public:
  Loop(std::vector<Arrival> arrivals, bool fifo, Trouble trouble = {})
      : fifo_(fifo), arrivals_(std::move(arrivals)), trouble_(trouble), random_(trouble.seed) {
    if (trouble_.seed != 0) {
      next_failure_ = trouble_.between;
      scene_.view.policy.shrink_after_seconds = 15;
      scene_.view.policy.projects["p"].device_quota["*"] = 24;
    }
    scene_.view.now = 0;
    scene_.view.policy.min_run_seconds = 5;
  }

  Outcome Run() {
    for (int events = 0; events < 20'000; ++events) {
      Submit();
      BreakAndMend();
      const View& view = scene_.Now();
      const Decisions decisions = fifo_ ? FirstComeFirstServed(view) : scheduler::Decide(view);
      if (!fifo_) Check(view, decisions);
      if (!outcome_.broken.empty()) return outcome_;
      for (const Start& start : decisions.starts) {
        const Shape& shape = scene_.ShapeOf(start.job);
        outcome_.shrunk += start.data < shape.degrees[4] * shape.degrees[5] ? 1 : 0;
        if (first_start_.insert({start.job, view.now}).second) {
          outcome_.mean_wait += view.now - scene_.Job(start.job).submitted_at;
        }
      }
      outcome_.preemptions += static_cast<int>(decisions.preemptions.size());
      scene_.Apply(decisions);
      if (!Advance()) break;
    }
    outcome_.makespan = scene_.view.now;
    outcome_.utilization = busy_ / (kDevices * outcome_.makespan);
    outcome_.mean_wait /= static_cast<double>(first_start_.size());
    return outcome_;
  }

 private:
  static constexpr int kDevices = 64;

  void Submit() {
    while (next_ < arrivals_.size() && arrivals_[next_].at <= scene_.view.now) {
      const Arrival& arrival = arrivals_[next_++];
      JobView& job = scene_.Queue(arrival.name, arrival.ranks, arrival.tensor);
      job.seconds_left = arrival.seconds;
      job.priority = arrival.priority;
      if (trouble_.seed != 0) {
        job.project = arrival.ranks <= 24 && random_() % 2 == 0 ? "p" : "default";
        const int64_t data = scene_.ShapeOf(arrival.name).degrees[4];
        for (int64_t d = data / 2; d > 0; d /= 2) {
          scene_.ShapeOf(arrival.name).fewer_data.push_back(d);
        }
      }
    }
  }

  // The earliest time at which the job fits when running ones end and nobody else starts.
  static double EarliestStart(const View& view, const JobView& job) {
    std::vector<const JobView*> running;
    for (const JobView& other : view.jobs) {
      if (other.phase == JobPhase::kRunning) running.push_back(&other);
    }
    std::sort(running.begin(), running.end(), [](const JobView* a, const JobView* b) {
      return *a->seconds_left < *b->seconds_left;
    });
    Occupancy room = view.occupancy;
    for (const JobView* other : running) {
      for (const Device& d : other->held->ranks) room.free[d.node] |= uint64_t{1} << d.device;
      if (Place(*view.cluster, room, *job.shape).has_value()) {
        return view.now + *other->seconds_left;
      }
    }
    return std::numeric_limits<double>::infinity();
  }

  void Check(const View& view, const Decisions& decisions) {
    outcome_.broken = Broken(view, decisions);
    // Of jobs of one priority the head starts no later than it could have when it became the head.
    const bool priorities = std::any_of(arrivals_.begin(), arrivals_.end(),
                                        [](const Arrival& a) { return a.priority != 0; });
    if (priorities) return;
    for (const Start& start : decisions.starts) {
      const auto promised = promised_.find(start.job);
      if (promised != promised_.end() && view.now > promised->second + 1e-6) {
        outcome_.broken = absl::StrCat(start.job, " started at ", view.now, " and could have at ",
                                       promised->second);
      }
    }
    for (const Candidate& candidate : InOrder(view)) {
      if (StartOf(decisions, candidate.job->name) != nullptr) continue;
      const auto [promised, first] = promised_.insert({candidate.job->name, 0});
      if (first)
        promised->second = EarliestStart(After(view, decisions, candidate), *candidate.job);
      return;
    }
  }

  // The view once those before the candidate have started.
  static View After(const View& view, const Decisions& decisions, const Candidate& candidate) {
    View after = view;
    for (const Start& start : decisions.starts) {
      auto job = std::find_if(after.jobs.begin(), after.jobs.end(),
                              [&](const JobView& j) { return j.name == start.job; });
      if (job->order > candidate.job->order) continue;
      job->phase = JobPhase::kRunning;
      job->held = start.placement;
      for (const Device& d : start.placement.ranks) {
        after.occupancy.free[d.node] &= ~(uint64_t{1} << d.device);
      }
    }
    return after;
  }

  // Nodes that fail take the ranks on them along; others come back.
  void BreakAndMend() {
    if (trouble_.seed == 0) return;
    for (auto broken = broken_.begin(); broken != broken_.end();) {
      const bool mended = broken->second <= scene_.view.now;
      if (mended) scene_.SetHealthy(broken->first, true);
      broken = mended ? broken_.erase(broken) : std::next(broken);
    }
    if (scene_.view.now < next_failure_) return;
    next_failure_ = scene_.view.now + trouble_.between;
    const int node = static_cast<int>(random_() % 16);
    if (!broken_.insert({node, scene_.view.now + trouble_.for_seconds}).second) return;
    scene_.SetHealthy(node, false);
    for (JobView& job : scene_.view.jobs) {
      if (job.phase != JobPhase::kRunning) continue;
      const std::vector<int> nodes = NodesOf(*job.held);
      if (!std::binary_search(nodes.begin(), nodes.end(), node)) continue;
      job.phase = JobPhase::kRecovering;
      job.failed_at = scene_.view.now;
      ++outcome_.failures;
    }
  }

  // To the next arrival or end; false when there is none.
  bool Advance() {
    double next = std::numeric_limits<double>::infinity();
    if (next_ < arrivals_.size()) next = arrivals_[next_].at;
    bool stopping = false;
    bool waiting = false;
    double running = 0;
    for (JobView& job : scene_.view.jobs) {
      stopping = stopping || job.phase == JobPhase::kStopping;
      waiting = waiting || job.phase != JobPhase::kRunning;
      if (job.phase != JobPhase::kRunning) continue;
      running += static_cast<double>(job.held->ranks.size());
      next = std::min(next, scene_.view.now + *job.seconds_left);
      job.checkpoint_at = scene_.view.now;
    }
    if (stopping) next = std::min(next, scene_.view.now + 1);
    // Time alone helps too: nodes come back, jobs may be preempted or shrink.
    if (trouble_.seed != 0 && waiting) next = std::min(next, scene_.view.now + 5);
    if (next == std::numeric_limits<double>::infinity()) return false;
    busy_ += running * (next - scene_.view.now);
    scene_.EndStopping();
    scene_.Pass(next - scene_.view.now);
    scene_.view.now = next;
    std::erase_if(scene_.view.jobs, [&](const JobView& job) {
      const bool ends = job.phase == JobPhase::kRunning && *job.seconds_left <= 1e-9;
      if (ends) outcome_.finished.insert(job.name);
      return ends;
    });
    return true;
  }

  bool fifo_;
  std::vector<Arrival> arrivals_;
  Trouble trouble_;
  std::mt19937_64 random_;
  double next_failure_ = 0;
  std::map<int, double> broken_;  // until when, by node
  size_t next_ = 0;
  Scene scene_{4, 4, 4};
  double busy_ = 0;
  std::map<std::string, double> first_start_;
  std::map<std::string, double> promised_;
  Outcome outcome_;
};

void Print(const char* name, const Outcome& outcome) {
  std::printf(
      "%-10s makespan %.0f s, utilization %.3f, mean wait %.0f s, %d preemptions, %d failures, "
      "%d shrunk starts\n",
      name, outcome.makespan, outcome.utilization, outcome.mean_wait, outcome.preemptions,
      outcome.failures, outcome.shrunk);
}

TEST(OverTime, HeadIsNeverDelayedAndNobodyStarves) {
  double better = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Arrival> arrivals = Arrivals(seed, 150, 64, false);
    const Outcome backfilled = Loop(arrivals, false).Run();
    ASSERT_EQ(backfilled.broken, "") << "seed " << seed;
    EXPECT_EQ(backfilled.finished.size(), arrivals.size()) << "seed " << seed;
    const Outcome fifo = Loop(arrivals, true).Run();
    Print("backfill", backfilled);
    Print("in order", fifo);
    better += backfilled.utilization - fifo.utilization;
  }
  EXPECT_GT(better, 0);
}

TEST(OverTime, PreemptedJobsFinishInTheEnd) {
  int preemptions = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Arrival> arrivals = Arrivals(seed, 100, 64, true);
    const Outcome outcome = Loop(arrivals, false).Run();
    ASSERT_EQ(outcome.broken, "") << "seed " << seed;
    EXPECT_EQ(outcome.finished.size(), arrivals.size()) << "seed " << seed;
    Print("priorities", outcome);
    preemptions += outcome.preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST(OverTime, JobsOnFailingNodesFinishInTheEnd) {
  int failures = 0, shrunk = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Arrival> arrivals = Arrivals(seed, 100, 64, true);
    const Outcome outcome = Loop(arrivals, false, {.seed = seed}).Run();
    ASSERT_EQ(outcome.broken, "") << "seed " << seed;
    EXPECT_EQ(outcome.finished.size(), arrivals.size()) << "seed " << seed;
    Print("failures", outcome);
    failures += outcome.failures;
    shrunk += outcome.shrunk;
  }
  EXPECT_GT(failures, 0);
  EXPECT_GT(shrunk, 0);
}

}  // namespace
}  // namespace strata::scheduler
