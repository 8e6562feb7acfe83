// What a decision costs on 12,500 nodes with 10,000 queued jobs, and on 200 nodes with 2,000.
// Prints the times; the ceilings are far above them, since machines differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/queue.h"
#include "scheduler/queue/test_support.h"

namespace strata::scheduler {
namespace {

constexpr int kDevices = 8;

class LargeScene {
 public:
  explicit LargeScene(int nodes = 12'500) : nodes_(nodes) {
    topology::Description description;
    description.levels = {"zone", "rack", "domain"};
    for (int n = 0; n < nodes_; ++n) {
      topology::Node node;
      node.name = absl::StrCat("n", n);
      node.kind = "h100";
      node.devices = kDevices;
      for (int d = 0; d < kDevices; ++d) node.free.push_back(d);
      node.at = {absl::StrCat("z", n / 400), absl::StrCat("r", n / 8), absl::StrCat("d", n)};
      description.nodes.push_back(node);
    }
    cluster_ = *topology::Cluster::Make(description);
    view.cluster = &cluster_;
    view.occupancy = Occupancy::Now(cluster_);
    view.now = 100'000;
  }

  Shape* MakeShape(int64_t tensor, int64_t pipeline, int64_t data) {
    shapes_.emplace_back();
    shapes_.back().degrees = {tensor, 1, 1, pipeline, data, 1};
    shapes_.back().device = "h100";
    return &shapes_.back();
  }

  // Running jobs of 8 nodes each on all nodes, the last `free` nodes apart.
  void Fill(int free) {
    for (int first = 0; first + 8 <= nodes_ - free; first += 8) {
      JobView job;
      job.name = absl::StrCat("r", first);
      job.shape = MakeShape(8, 1, 8);
      job.phase = JobPhase::kRunning;
      job.started_at = view.now - 5000 - first;
      job.checkpoint_at = view.now - first % 700;
      job.seconds_left = 1000 + first % 5000;
      job.held.emplace();
      job.held->kind = "h100";
      job.held->order.assign(planner::kAllDimensions.begin(), planner::kAllDimensions.end());
      for (int n = first; n < first + 8; ++n) {
        view.occupancy.free[n] = 0;
        for (int d = 0; d < kDevices; ++d) job.held->ranks.push_back({n, d});
      }
      view.jobs.push_back(job);
    }
    // What is left over beside whole jobs is taken too.
    for (int n = (nodes_ - free) / 8 * 8; n < nodes_ - free; ++n) view.occupancy.free[n] = 0;
  }

  void Queue(int64_t priority, bool mixed, int jobs = 10'000) {
    for (int j = 0; j < jobs; ++j) {
      JobView job;
      job.name = absl::StrCat("q", j);
      job.shape = MakeShape(8, mixed ? 1 << j % 3 : 1, mixed ? 8 + j % 64 : 8);
      job.order = j;
      job.priority = priority;
      job.project = absl::StrCat("p", j % 10);
      if (j % 2 == 0) job.seconds_left = 100 + j;
      view.jobs.push_back(job);
    }
  }

  View view;

 private:
  int nodes_;
  topology::Cluster cluster_;
  std::deque<Shape> shapes_;
};

// Milliseconds of processor time of the middle one of some decisions.
double Measure(const char* what, const View& view, Decisions* last) {
  std::vector<double> times;
  while (times.size() < 5 && (times.empty() || times[0] < 200)) {
    const std::clock_t begin = std::clock();
    *last = Decide(view);
    times.push_back(static_cast<double>(std::clock() - begin) * 1000 / CLOCKS_PER_SEC);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-48s %8.2f ms, %zu starts, %zu preemptions, %zu wait\n", what,
              times[times.size() / 2], last->starts.size(), last->preemptions.size(),
              last->waiting.size());
  return times[times.size() / 2];
}

TEST(LargeCluster, NothingFree) {
  LargeScene scene;
  scene.Fill(0);
  scene.Queue(0, true);
  Decisions decisions;
  EXPECT_LT(Measure("nothing free", scene.view, &decisions), 500);
  EXPECT_TRUE(decisions.starts.empty());
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(LargeCluster, NothingFreeAndEveryPriorityDifferent) {
  LargeScene scene;
  scene.Fill(0);
  scene.Queue(0, true);
  for (JobView& job : scene.view.jobs) {
    if (job.phase == JobPhase::kQueued) {
      job.priority = job.order;
      job.preempted_by = "q5";
    } else {
      job.priority = 20'000;
    }
  }
  Decisions decisions;
  EXPECT_LT(Measure("nothing free, all priorities differ", scene.view, &decisions), 500);
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(LargeCluster, ManyShapesThatFitNowhere) {
  LargeScene scene;
  scene.Queue(0, false);
  for (JobView& job : scene.view.jobs) job.shape = scene.MakeShape(8, 1, 12'501 + job.order);
  Decisions decisions;
  EXPECT_LT(Measure("10,000 different shapes fit nowhere", scene.view, &decisions), 5000);
  EXPECT_TRUE(decisions.waiting.at("q0").infeasible);
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(SmallCluster, NothingFree) {
  LargeScene scene(200);
  scene.Fill(0);
  scene.Queue(0, true, 2000);
  Decisions decisions;
  EXPECT_LT(Measure("200 nodes, nothing free, 2,000 queued", scene.view, &decisions), 100);
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(SmallCluster, OneJobIsQueuedAndFits) {
  LargeScene scene(200);
  scene.Fill(40);
  scene.Queue(0, false, 1);
  Decisions decisions;
  EXPECT_LT(Measure("200 nodes, one job is queued and fits", scene.view, &decisions), 100);
  EXPECT_EQ(decisions.starts.size(), 1u);
}

TEST(LargeCluster, SomeFreeButTheHeadDoesNotFit) {
  LargeScene scene;
  scene.Fill(40);
  scene.Queue(0, true);
  for (JobView& job : scene.view.jobs) {
    if (job.name == "q0") job.shape = scene.MakeShape(8, 16, 64);
  }
  Decisions decisions;
  EXPECT_LT(Measure("40 nodes free, head of 8,192 waits, backfill", scene.view, &decisions), 5000);
  EXPECT_FALSE(decisions.starts.empty());
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(LargeCluster, ManyPreempt) {
  LargeScene scene;
  scene.Fill(0);
  scene.Queue(5, true);
  Decisions decisions;
  EXPECT_LT(Measure("10,000 of higher priority preempt", scene.view, &decisions), 20'000);
  EXPECT_FALSE(decisions.preemptions.empty());
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(LargeCluster, EmptyAndManyStart) {
  LargeScene scene;
  scene.Queue(0, false);
  Decisions decisions;
  EXPECT_LT(Measure("empty, 1,562 start", scene.view, &decisions), 60'000);
  EXPECT_EQ(decisions.starts.size(), 1562u);
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

TEST(LargeCluster, OneNodeFails) {
  LargeScene scene;
  scene.Fill(8);
  scene.Queue(0, true);
  for (JobView& job : scene.view.jobs) {
    if (job.name != "r80") continue;
    job.phase = JobPhase::kRecovering;
    job.failed_at = scene.view.now;
    for (int d = 0; d < kDevices; ++d) job.held->ranks[d].node = -1;
  }
  Decisions decisions;
  EXPECT_LT(Measure("one job recovers", scene.view, &decisions), 2000);
  EXPECT_NE(StartOf(decisions, "r80"), nullptr);
  EXPECT_EQ(Broken(scene.view, decisions), "");
}

}  // namespace
}  // namespace strata::scheduler
