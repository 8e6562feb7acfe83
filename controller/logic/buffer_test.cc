// scheduling.buffer as operators and jobs see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/refusal.h"
#include "controller/logic/scheduler_figures.h"
#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;

// Nodes n0 … of one device in one zone, one of them held back; jobs of queue "batch" may borrow it.
class BufferedCluster : public ::testing::Test {
 protected:
  explicit BufferedCluster(int nodes = 3) {
    for (int i = 0; i < nodes; ++i) h.Join(absl::StrCat("n", i), {}, 1, {{"zone", "z0"}});
    policy.mutable_scheduling()->mutable_buffer()->set_level("zone");
    policy.mutable_scheduling()->mutable_buffer()->set_nodes(1);
    v1::QueuePolicy& queue = *policy.add_queues();
    queue.set_name("batch");
    queue.set_preemptible(true);
    EXPECT_TRUE(h.ApplyPolicy(policy).ok());
  }
  v1::Job::State Submit(const std::string& name, int ranks, const std::string& queue = "",
                        bool preemptible = false) {
    v1::CreateJobRequest request = Harness::Request(name, ranks);
    v1::ResourcesSpec& resources = *request.mutable_job()->mutable_spec()->mutable_resources();
    if (!queue.empty()) resources.set_queue(queue);
    if (preemptible) resources.set_preemptible(true);
    EXPECT_TRUE(h.Create(request).ok());
    return h.Job(name).state();
  }
  std::string InBuffer() const {
    std::vector<std::string> names;
    for (const v1::Node& node : h.core->Nodes()) {
      if (node.buffer()) names.push_back(node.name().substr(6));
    }
    return absl::StrJoin(names, " ");
  }
  // The job's ranks, one a node, begin to run.
  void Begin(const std::string& name) {
    const v1::JobRecord job = h.Job(name);
    for (const v1::RankPlace& place : job.placement()) {
      h.SayPrepared(place.node().substr(6), name, job.epoch(), {place.rank()});
    }
    for (const v1::RankPlace& place : job.placement()) {
      h.SayRunning(place.node().substr(6), name, job.epoch());
    }
  }

  Harness h;
  v1::Policy policy;
};

TEST_F(BufferedCluster, StartsLeaveItAndExplainTellsOfIt) {
  EXPECT_EQ(Submit("a", 2), v1::Job::STARTING);
  EXPECT_EQ(Submit("b", 1), v1::Job::QUEUED);
  EXPECT_EQ(InBuffer(), "n2");
  EXPECT_THAT(absl::StrJoin(h.core->ExplainJob("jobs/b")->lines(), "\n"),
              HasSubstr("1 more is held back by scheduling.buffer"));
  const SchedulerFigures figures = FiguresOf(*h.core->TakeSnapshot());
  EXPECT_EQ(figures.buffer_free, 1);
  EXPECT_EQ(figures.buffer_lent + figures.buffer_missing, 0);
}

TEST_F(BufferedCluster, APreemptibleJobBorrowsItAndGivesItBackToLostRanks) {
  EXPECT_EQ(Submit("a", 2), v1::Job::STARTING);
  Begin("a");
  EXPECT_EQ(Submit("b", 1, "batch"), v1::Job::STARTING);
  Begin("b");
  EXPECT_EQ(InBuffer(), "n2");
  EXPECT_EQ(FiguresOf(*h.core->TakeSnapshot()).buffer_lent, 1);
  // n1 dies: its lease passes, its rank needs another node.
  h.EndSession("n1");
  h.SayEnded("n0", "a", 1, v1::Finished::FAILED, "lost its peer");
  h.Pass(40, {"n0", "n2"});
  EXPECT_THAT(h.Job("b").preemption().reason(), HasSubstr("had borrowed nodes of the buffer"));
  h.SayEnded("n2", "b", 1, v1::Finished::INTERRUPTED);
  h.Pass(1, {"n0", "n2"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n2");
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
  EXPECT_EQ(FiguresOf(*h.core->TakeSnapshot()).buffer_missing, 1);
}

TEST_F(BufferedCluster, AJobThatIsMarkedPreemptibleBorrowsItAndGivesItBackToLostRanks) {
  EXPECT_EQ(Submit("a", 2), v1::Job::STARTING);
  Begin("a");
  EXPECT_EQ(Submit("unmarked", 1), v1::Job::QUEUED);
  EXPECT_EQ(Submit("b", 1, "default", /*preemptible=*/true), v1::Job::STARTING);
  Begin("b");
  EXPECT_EQ(FiguresOf(*h.core->TakeSnapshot()).buffer_lent, 1);
  h.EndSession("n1");
  h.SayEnded("n0", "a", 1, v1::Finished::FAILED, "lost its peer");
  h.Pass(40, {"n0", "n2"});
  EXPECT_THAT(h.Job("b").preemption().reason(), HasSubstr("had borrowed nodes of the buffer"));
  h.SayEnded("n2", "b", 1, v1::Finished::INTERRUPTED);
  h.Pass(1, {"n0", "n2"});
  EXPECT_EQ(h.Job("a").placement(1).node(), "nodes/n2");
  EXPECT_EQ(h.Job("b").state(), v1::Job::QUEUED);
}

TEST_F(BufferedCluster, AMarkedJobTakesWhatItBorrowedAlongToAnyQueue) {
  ASSERT_EQ(Submit("wide", 3, "batch", /*preemptible=*/true), v1::Job::STARTING);
  Begin("wide");
  v1::Job changes;
  changes.mutable_spec()->mutable_resources()->set_queue("default");
  ASSERT_TRUE(h.Update("wide", changes, {"spec.resources.queue"}).ok());
  EXPECT_EQ(FiguresOf(*h.core->TakeSnapshot()).buffer_lent, 1);
}

TEST_F(BufferedCluster, RanksOfADrainedNodeTakeItBackToo) {
  EXPECT_EQ(Submit("a", 2), v1::Job::STARTING);
  Begin("a");
  EXPECT_EQ(Submit("b", 1, "batch"), v1::Job::STARTING);
  Begin("b");
  ASSERT_TRUE(h.Drain("n0").ok());
  h.Pass(1, {"n0", "n1", "n2"});
  EXPECT_TRUE(h.Job("b").has_preemption());
  EXPECT_FALSE(h.Job("a").has_preemption());
  h.SayEnded("n2", "b", 1, v1::Finished::INTERRUPTED);
  h.Pass(1, {"n0", "n1", "n2"});
  EXPECT_EQ(h.Job("a").moving_to().ranks(0).node(), "nodes/n2");
}

TEST_F(BufferedCluster, ALevelThatTheClusterDoesNotHaveIsRefused) {
  policy.mutable_scheduling()->mutable_buffer()->set_level("zones");
  const absl::Status status = h.ApplyPolicy(policy).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its levels are zone, domain"));
}

TEST_F(BufferedCluster, AChangeOfItIsTold) {
  policy.mutable_scheduling()->mutable_buffer()->set_nodes(2);
  const auto applied = h.ApplyPolicy(policy);
  ASSERT_TRUE(applied.ok());
  std::string details;
  for (const v1::PolicyChange& change : applied->changes()) details += change.detail();
  EXPECT_EQ(details, "buffer.nodes 1 -> 2");
}

TEST_F(BufferedCluster, AJobThatBorrowedItDoesNotTakeItAlongToAQueueThatMayNot) {
  ASSERT_EQ(Submit("wide", 3, "batch"), v1::Job::STARTING);
  Begin("wide");
  v1::Job changes;
  changes.mutable_spec()->mutable_resources()->set_queue("default");
  const absl::Status refused = h.Update("wide", changes, {"spec.resources.queue"}).status();
  EXPECT_EQ(ReasonOf(refused), "BUFFER");
  EXPECT_EQ(h.Job("wide").spec().resources().queue(), "batch");
  ASSERT_EQ(Submit("narrow", 1), v1::Job::QUEUED);
}

}  // namespace
}  // namespace strata::controller
