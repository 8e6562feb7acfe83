// What holds on every view: random clusters, jobs and policies.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/order.h"
#include "scheduler/queue/queue.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

// A random view and what it borrows.
class RandomScene {
 public:
  explicit RandomScene(uint64_t seed) : random_(seed) {
    MakeCluster();
    MakePolicy();
    view.cluster = &cluster_;
    view.occupancy = Occupancy::Now(cluster_);
    view.now = 10'000;
    const int jobs = static_cast<int>(Below(14));
    for (int j = 0; j < jobs; ++j) AddJob(j);
    std::mt19937_64 marks(~seed);
    for (JobView& job : view.jobs) job.preemptible = marks() % 100 < 15;
    std::shuffle(view.jobs.begin(), view.jobs.end(), random_);
  }
  RandomScene(const RandomScene&) = delete;
  RandomScene& operator=(const RandomScene&) = delete;

  View view;

  void Shuffle() { std::shuffle(view.jobs.begin(), view.jobs.end(), random_); }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool Chance(int percent) { return static_cast<int>(Below(100)) < percent; }

  void MakeCluster() {
    topology::Description description;
    description.levels = {"zone", "domain"};
    const int kinds = Chance(30) ? 2 : 1;
    const int nodes = 1 + static_cast<int>(Below(10));
    const int devices = 1 << Below(4);
    for (int n = 0; n < nodes; ++n) {
      topology::Node node;
      node.name = absl::StrCat("n", n);
      node.kind = kinds == 2 && Chance(40) ? "a100" : "h100";
      node.devices = devices;
      for (int d = 0; d < devices; ++d) node.free.push_back(d);
      node.healthy = !Chance(10);
      node.at = {absl::StrCat("z", n / 4), absl::StrCat("d", n / 2)};
      description.nodes.push_back(node);
    }
    cluster_ = *topology::Cluster::Make(description);
  }

  void MakePolicy() {
    Policy& policy = view.policy;
    if (Chance(40)) policy.projects["p"].device_quota["h100"] = static_cast<int64_t>(Below(20));
    if (Chance(20)) policy.projects["p"].device_quota["*"] = static_cast<int64_t>(Below(30));
    if (Chance(30)) policy.queues["q"].max_devices = static_cast<int64_t>(Below(20));
    if (Chance(30)) policy.queues["q"].priority = static_cast<int64_t>(Below(4));
    if (Chance(20)) policy.preemption_gap = static_cast<int64_t>(Below(3));
    policy.defragment = Chance(30);
    if (Chance(25)) policy.queues["q"].preemptible = true;
    if (Chance(30)) MakeBuffer(policy.buffer.emplace());
  }

  void MakeBuffer(BufferPolicy& buffer) {
    buffer.level = Chance(40) ? "domain" : Chance(50) ? "zone" : kWholeCluster;
    if (Chance(70)) {
      buffer.nodes = static_cast<int64_t>(Below(3));
    } else {
      buffer.fraction = static_cast<double>(Below(40)) / 100;
    }
  }

  void AddJob(int number) {
    shapes_.emplace_back();
    Shape& shape = shapes_.back();
    const int64_t tensor = int64_t{1} << Below(3);
    const int64_t pipeline = Chance(20) ? 2 : 1;
    const int64_t data = 1 + static_cast<int64_t>(Below(Chance(30) ? 12 : 4));
    shape.degrees = {tensor, 1, 1, pipeline, data, 1};
    shape.device = Chance(20) ? "gpu" : Chance(15) ? "a100" : "h100";
    shape.spares = Chance(20) ? 1 : 0;
    for (int64_t fewer = data - 1; fewer > 0; --fewer) {
      if (Chance(50)) shape.fewer_data.push_back(fewer);
    }
    JobView job;
    job.name = absl::StrCat("j", number);
    job.shape = &shape;
    job.order = number;
    job.priority = static_cast<int64_t>(Below(4));
    if (Chance(40)) job.project = "p";
    if (Chance(40)) job.queue = "q";
    if (Chance(10)) job.preempted_by = absl::StrCat("j", Below(10));
    if (Chance(70)) job.seconds_left = static_cast<double>(Below(500));
    if (Chance(60)) Hold(job);
    view.jobs.push_back(job);
  }

  // Gives it devices, where there are some; also on nodes that broke since.
  void Hold(JobView& job) {
    Occupancy some = view.occupancy;  // scattered, as after a long time
    for (uint64_t& free : some.free) free &= Chance(40) ? random_() : ~uint64_t{0};
    auto placement = Place(cluster_, some, *job.shape);
    if (!placement.has_value()) return;
    job.held = placement;
    job.started_at = view.now - static_cast<double>(Below(200));
    job.checkpoint_at = std::min(view.now, job.started_at + static_cast<double>(Below(100)));
    job.phase = Chance(60)   ? JobPhase::kRunning
                : Chance(40) ? JobPhase::kStopping
                             : JobPhase::kRecovering;
    job.failed_at = view.now - static_cast<double>(Below(120));
    for (Device& d : job.held->ranks) {
      view.occupancy.free[d.node] &= ~(uint64_t{1} << d.device);
      if (job.phase == JobPhase::kRecovering && Chance(10)) d.node = -1;
    }
  }

  std::mt19937_64 random_;
  topology::Cluster cluster_;
  std::deque<Shape> shapes_;
};

std::string TextOf(const Decisions& decisions) {
  std::string text;
  for (const Start& start : decisions.starts) {
    absl::StrAppend(&text, "start ", start.job, " data ", start.data, ": ", start.why, " on");
    for (const Device& d : start.placement.ranks)
      absl::StrAppend(&text, " ", d.node, "/", d.device);
    absl::StrAppend(&text, "\n");
  }
  for (const Preemption& p : decisions.preemptions) {
    absl::StrAppend(&text, p.by, " preempts ", p.victim, ": ", p.why, "\n");
  }
  for (const auto& [job, waiting] : decisions.waiting) {
    absl::StrAppend(&text, job, " waits: ", waiting.reason, " | ", waiting.starts_when, "\n");
  }
  return text;
}

void Remove(const std::vector<Device>& devices, Occupancy& room) {
  for (const Device& d : devices) {
    if (d.node >= 0) room.free[d.node] &= ~(uint64_t{1} << d.device);
  }
}

void Add(const View& view, const std::vector<Device>& devices, Occupancy& room) {
  for (const Device& d : devices) {
    if (d.node >= 0 && view.cluster->nodes()[d.node].healthy) {
      room.free[d.node] |= uint64_t{1} << d.device;
    }
  }
}

// The room without the buffer, as its policy says it: of each group and kind so many nodes, those
// with most devices in the room, the last ones of equal ones.
Occupancy WithoutBuffer(const View& view, Occupancy room) {
  const BufferPolicy& buffer = *view.policy.buffer;
  const auto& nodes = view.cluster->nodes();
  std::map<std::pair<std::string, std::string>, std::vector<int>> parts;
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    const std::string group = buffer.level == kWholeCluster ? "" : nodes[n].at[0];
    parts[{buffer.level == "domain" ? nodes[n].at[1] : group, nodes[n].kind}].push_back(n);
  }
  for (auto& [key, part] : parts) {
    const double share = buffer.fraction * static_cast<double>(part.size());
    int64_t wanted = std::max(buffer.nodes, static_cast<int64_t>(std::ceil(share - 1e-9)));
    std::reverse(part.begin(), part.end());
    std::stable_sort(part.begin(), part.end(), [&](int a, int b) {
      return std::popcount(room.free[a]) > std::popcount(room.free[b]);
    });
    for (const int n : part) {
      if (wanted-- > 0) room.free[n] = 0;
    }
  }
  return room;
}

bool Fits(const View& view, const JobView& job, const Occupancy& room) {
  const auto queue = view.policy.queues.find(job.queue);
  const bool may = !view.policy.buffer.has_value() || job.phase == JobPhase::kRecovering ||
                   job.preemptible ||
                   (queue != view.policy.queues.end() && queue->second.preemptible);
  return Place(*view.cluster, may ? room : WithoutBuffer(view, room), *job.shape).has_value();
}

// The most urgent job that waits for devices although stopping lower ones that may be stopped would
// give it a place; empty: there is none. Only the most urgent one is surely nobody's second.
std::string WaitsForLower(const View& view, const Decisions& decisions) {
  Occupancy room = view.occupancy;
  std::vector<Candidate> recovering, queued;
  for (const Candidate& candidate : InOrder(view)) {
    const Start* start = StartOf(decisions, candidate.job->name);
    if (candidate.job->phase == JobPhase::kQueued) {
      queued.push_back(candidate);
    } else if (start == nullptr) {
      recovering.push_back(candidate);
    } else {
      // One that shrinks may do so after the others' turn: what it leaves is theirs the next time.
      const planner::Degrees& asked = candidate.job->shape->degrees;
      if (start->data == asked[4] * asked[5]) Add(view, candidate.job->held->ranks, room);
      Remove(start->placement.ranks, room);
    }
  }
  for (const Candidate& candidate : Merge(recovering, queued)) {
    const JobView& job = *candidate.job;
    if (const Start* start = StartOf(decisions, job.name)) {
      Remove(start->placement.ranks, room);
      continue;
    }
    const Waiting& waiting = decisions.waiting.at(job.name);
    if (waiting.infeasible || waiting.reason.starts_with("over quota")) continue;
    if (job.shape->device == "gpu") return "";
    for (const JobView& other : view.jobs) {
      if (!other.held.has_value()) continue;
      const bool lower =
          candidate.priority - EffectivePriority(view.policy, other) > view.policy.preemption_gap;
      const bool ran = view.now - other.started_at >= view.policy.min_run_seconds;
      if (&other == &job || other.phase == JobPhase::kStopping ||
          (other.phase == JobPhase::kRunning && lower && ran)) {
        Add(view, other.held->ranks, room);
      }
    }
    const bool gets = std::any_of(decisions.preemptions.begin(), decisions.preemptions.end(),
                                  [&](const Preemption& p) { return p.by == job.name; }) ||
                      waiting.reason.starts_with("has its place") ||
                      waiting.reason.starts_with("devices that another job gives up");
    return !gets && Fits(view, job, room) ? job.name : "";
  }
  return "";
}

// A recovering job of which nothing is lost starts, whatever else waits.
std::string StaysDown(const View& view, const Decisions& decisions) {
  for (const JobView& job : view.jobs) {
    if (job.phase != JobPhase::kRecovering || StartOf(decisions, job.name) != nullptr) continue;
    if (std::all_of(job.held->ranks.begin(), job.held->ranks.end(), [&](const Device& d) {
          return d.node >= 0 && view.cluster->nodes()[d.node].healthy;
        })) {
      return job.name;
    }
  }
  return "";
}

constexpr int kCases = 12'000;

int Cases() {
  const char* cases = std::getenv("STRATA_CASES");
  return cases != nullptr ? std::atoi(cases) : kCases;
}

// An eviction left the head no place, also later: once that ended the process.
TEST(AnyView, AHeadWithoutAPlaceAfterAnEvictionWaits) {
  const RandomScene scene(18810);
  const Decisions decisions = Decide(scene.view);
  EXPECT_EQ(Broken(scene.view, decisions), "") << TextOf(decisions);
  EXPECT_EQ(StaysDown(scene.view, decisions), "") << TextOf(decisions);
}

TEST(AnyView, IsDecidedSoundly) {
  std::map<std::string, int> seen;
  for (int seed = 0; seed < Cases(); ++seed) {
    RandomScene scene(seed);
    const Decisions decisions = Decide(scene.view);
    const std::string text = TextOf(decisions);
    ASSERT_EQ(Broken(scene.view, decisions), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(WaitsForLower(scene.view, decisions), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(StaysDown(scene.view, decisions), "") << "seed " << seed << "\n" << text;
    ASSERT_EQ(TextOf(Decide(scene.view)), text) << "seed " << seed;
    scene.Shuffle();
    ASSERT_EQ(TextOf(Decide(scene.view)), text) << "seed " << seed << ", shuffled";
    for (const char* part :
         {"backfilled", "preempts", "replaces", "starts anew", "over quota", "moves elsewhere",
          "has its place", "(data ", "reserved on", "are held back"}) {
      seen[part] += text.find(part) != std::string::npos;
    }
  }
  // Each rule was at work in some of them.
  if (Cases() < kCases) return;
  for (const auto& [part, count] : seen) EXPECT_GE(count, 3) << part;
}

}  // namespace
}  // namespace strata::scheduler
