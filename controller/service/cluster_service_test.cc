// What operators ask of a running controller: policies, drained nodes, the map.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::ElementsAre;
using MessageCase = v1::ControllerMessage::MessageCase;

class ClusterServiceTest : public testing::Test {
 protected:
  grpc::Status Apply(const v1::ApplyPolicyRequest& request, v1::ApplyPolicyResponse* response) {
    Deadline context;
    return running_->cluster->ApplyPolicy(&context, request, response);
  }
  v1::GetPolicyResponse Policy() {
    Deadline context;
    v1::GetPolicyResponse response;
    EXPECT_TRUE(running_->cluster->GetPolicy(&context, {}, &response).ok());
    return response;
  }
  static v1::ApplyPolicyRequest Request() {
    v1::ApplyPolicyRequest request;
    request.mutable_policy()->add_projects()->set_name("nlp");
    return request;
  }
  void SetUp() override {
    directory_ = absl::StrCat(testing::TempDir(), "/cluster_service_test_",
                              testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    running_ = std::make_unique<RunningController>(directory_);
  }
  void Restart() {
    running_.reset();
    running_ = std::make_unique<RunningController>(directory_);
  }

  std::string directory_;
  std::unique_ptr<RunningController> running_;
};

TEST_F(ClusterServiceTest, APolicyIsAppliedAndSurvivesTheController) {
  v1::ApplyPolicyRequest request = Request();
  request.set_validate_only(true);
  v1::ApplyPolicyResponse applied;
  ASSERT_TRUE(Apply(request, &applied).ok());
  EXPECT_EQ(applied.policy().projects_size(), 2);
  EXPECT_EQ(Policy().policy().projects_size(), 1);
  request.set_validate_only(false);
  ASSERT_TRUE(Apply(request, &applied).ok());
  EXPECT_EQ(Policy().policy().projects_size(), 2);
  Restart();
  EXPECT_EQ(Policy().policy().projects_size(), 2);
  EXPECT_EQ(Policy().projects(1).name(), "nlp");
}

TEST_F(ClusterServiceTest, EveryProblemOfAPolicyIsNamedByItsField) {
  v1::ApplyPolicyRequest request = Request();
  request.mutable_policy()->add_projects()->set_name("Not Good");
  (*request.mutable_policy()->mutable_projects(0)->mutable_quota())["h100"] = -1;
  request.mutable_policy()->mutable_scheduling()->set_min_run_seconds(-1);
  v1::ApplyPolicyResponse applied;
  const grpc::Status refused = Apply(request, &applied);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(refused), "INVALID_POLICY");
  EXPECT_THAT(FieldsOf(refused), ElementsAre("projects[0].quota.h100", "projects[1].name",
                                             "scheduling.min_run_seconds"));
  EXPECT_THAT(FieldsOf(Apply({}, &applied)), ElementsAre("policy"));
  EXPECT_EQ(Policy().policy().projects_size(), 1);
}

// Lists are made beside the writer, from snapshots: what was answered before is in them.
TEST_F(ClusterServiceTest, ListsHoldWhatWasAcknowledgedBefore) {
  SimulatedAgent agent(*running_, "n0");
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(MessageCase::kWelcome, &said));
  std::atomic<bool> stop{false};
  std::thread others([&] {
    while (!stop) {
      Deadline context;
      v1::ListJobsResponse listed;
      EXPECT_TRUE(running_->jobs->ListJobs(&context, {}, &listed).ok());
    }
  });
  for (int i = 0; i < 50; ++i) {
    const std::string name = absl::StrCat("j", i);
    v1::Job job;
    ASSERT_TRUE(running_->Create(GoodRequest(name), &job).ok());
    v1::GetJobRequest get;
    get.set_name(job.name());
    Deadline context, listing, draining, asking;
    EXPECT_TRUE(running_->jobs->GetJob(&context, get, &job).ok());
    v1::ListJobsRequest list;
    list.set_page_size(1000);
    v1::ListJobsResponse listed;
    EXPECT_TRUE(running_->jobs->ListJobs(&listing, list, &listed).ok());
    EXPECT_EQ(listed.jobs_size(), i + 1);
    v1::DrainNodeRequest drain;
    v1::GetNodeRequest node;
    drain.set_name("nodes/n0");
    node.set_name("nodes/n0");
    v1::Node drained;
    EXPECT_TRUE(running_->cluster->DrainNode(&draining, drain, &drained).ok());
    EXPECT_TRUE(running_->cluster->GetNode(&asking, node, &drained).ok());
    EXPECT_TRUE(drained.drained());
  }
  stop = true;
  others.join();
}

TEST_F(ClusterServiceTest, ADrainedNodeStaysSoUntilItIsResumed) {
  {
    SimulatedAgent agent(*running_, "n0");
    v1::ControllerMessage said;
    ASSERT_TRUE(agent.Await(MessageCase::kWelcome, &said));
    v1::DrainNodeRequest request;
    request.set_name("nodes/n0");
    Deadline context;
    v1::Node node;
    ASSERT_TRUE(running_->cluster->DrainNode(&context, request, &node).ok());
    EXPECT_TRUE(node.drained());
    v1::Topology map;
    Deadline asked;
    ASSERT_TRUE(running_->cluster->GetTopology(&asked, {}, &map).ok());
    ASSERT_EQ(map.nodes_size(), 1);
    EXPECT_EQ(map.nodes(0).name(), "n0");
    EXPECT_FALSE(map.nodes(0).healthy());
  }
  Restart();
  v1::ResumeNodeRequest request;
  request.set_name("nodes/n0");
  Deadline context;
  v1::Node node;
  ASSERT_TRUE(running_->cluster->ResumeNode(&context, request, &node).ok());
  EXPECT_FALSE(node.drained());
  request.set_name("nodes/n9");
  Deadline again;
  const grpc::Status unknown = running_->cluster->ResumeNode(&again, request, &node);
  EXPECT_EQ(unknown.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(ReasonOf(unknown), "NODE_NOT_FOUND");
}

TEST_F(ClusterServiceTest, TheMapComesInPagesUntilItsLevelsChange) {
  SimulatedAgent second(*running_, "n1");
  SimulatedAgent first(*running_, "n0");
  v1::ControllerMessage said;
  ASSERT_TRUE(first.Await(MessageCase::kWelcome, &said));
  ASSERT_TRUE(second.Await(MessageCase::kWelcome, &said));
  v1::GetTopologyRequest request;
  v1::Topology map;
  const auto ask = [&] {
    Deadline context;
    return running_->cluster->GetTopology(&context, request, &map);
  };
  ASSERT_TRUE(ask().ok());
  EXPECT_EQ(map.nodes_size(), 2);
  EXPECT_TRUE(map.next_page_token().empty());
  request.set_page_size(1);
  ASSERT_TRUE(ask().ok());
  ASSERT_EQ(map.nodes_size(), 1);
  EXPECT_EQ(map.nodes(0).name(), "n0");
  request.set_page_token(map.next_page_token());
  ASSERT_TRUE(ask().ok());
  ASSERT_EQ(map.nodes_size(), 1);
  EXPECT_EQ(map.nodes(0).name(), "n1");
  EXPECT_THAT(map.levels(), ElementsAre("domain"));
  EXPECT_TRUE(map.next_page_token().empty());

  SimulatedAgent elsewhere(*running_, "n2", 1, {{"zone", "z"}});
  ASSERT_TRUE(elsewhere.Await(MessageCase::kWelcome, &said));
  EXPECT_THAT(FieldsOf(ask()), ElementsAre("page_token"));
}

}  // namespace
}  // namespace strata::controller
