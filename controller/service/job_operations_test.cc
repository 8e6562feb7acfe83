// Operations on jobs and nodes over the wire: what is answered, and what watchers and lists see.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class JobOperations : public testing::Test {
 protected:
  v1::Job Create(const std::string& name, const std::string& team = "", int64_t priority = 0) {
    v1::CreateJobRequest request = GoodRequest(name);
    request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(priority);
    if (!team.empty()) (*request.mutable_job()->mutable_spec()->mutable_labels())["team"] = team;
    v1::Job job;
    const grpc::Status status = running_.Create(request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  std::vector<std::string> List(const std::string& filter, const std::string& order_by = "") {
    v1::ListJobsRequest request;
    request.set_filter(filter);
    request.set_order_by(order_by);
    Deadline context;
    v1::ListJobsResponse response;
    const grpc::Status status = running_.jobs->ListJobs(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> names;
    for (const v1::Job& job : response.jobs()) names.push_back(job.name().substr(5));
    return names;
  }
  grpc::Status Delete(const std::string& name, bool force = false) {
    v1::DeleteJobRequest request;
    request.set_name("jobs/" + name);
    request.set_force(force);
    Deadline context;
    v1::DeleteJobResponse response;
    return running_.jobs->DeleteJob(&context, request, &response);
  }

  RunningController running_;
};

TEST_F(JobOperations, AJobIsNamedByItsId) {
  v1::CreateJobRequest request = GoodRequest("a");
  request.mutable_job()->clear_name();
  request.set_job_id("by-id");
  v1::Job job;
  ASSERT_TRUE(running_.Create(request, &job).ok());
  EXPECT_EQ(job.name(), "jobs/by-id");
  request.mutable_job()->set_name("jobs/other");
  EXPECT_THAT(FieldsOf(running_.Create(request, &job)), ElementsAre("job_id"));
}

TEST_F(JobOperations, AutoOfACallIsDecidedOnceAndSaysWhy) {
  v1::CreateJobRequest request = GoodRequest("open");
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.clear_parallel();
  spec.mutable_parallel()->set_automatic(true);
  spec.mutable_resources()->set_ranks(2);
  request.set_request_id("once");
  v1::Job job, again;
  const grpc::Status status = running_.Create(request, &job);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::ParallelSpec& parallel = job.spec().parallel();
  EXPECT_FALSE(parallel.automatic());
  EXPECT_EQ(parallel.data() * parallel.tensor() * parallel.context() * parallel.pipeline(), 2);
  ASSERT_TRUE(running_.Create(request, &again).ok());
  EXPECT_EQ(again.uid(), job.uid());
  v1::ListJobEventsRequest listing;
  listing.set_parent("jobs/open");
  Deadline context;
  v1::ListJobEventsResponse events;
  ASSERT_TRUE(running_.jobs->ListJobEvents(&context, listing, &events).ok());
  const v1::JobEvent& created = events.events(events.events_size() - 1);
  EXPECT_THAT(created.ShortDebugString(), testing::HasSubstr("auto was decided: "));
  spec.mutable_resources()->set_ranks(13);
  request.set_request_id("another");
  EXPECT_THAT(FieldsOf(running_.Create(request, &job)), ElementsAre("parallel"));
}

TEST_F(JobOperations, AutoOfACallIsDecidedByWhatTheNodesHold) {
  v1::CreateJobRequest request = GoodRequest("open");
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.clear_parallel();
  spec.mutable_parallel()->set_automatic(true);
  spec.mutable_resources()->set_ranks(2);
  v1::ControllerMessage said;
  SimulatedAgent large(running_, "large", 1, {}, 2, int64_t{1} << 40);
  ASSERT_TRUE(large.Await(v1::ControllerMessage::kWelcome, &said));
  v1::Job job;
  const grpc::Status decided = running_.Create(request, &job);
  ASSERT_TRUE(decided.ok()) << decided.error_message();
  SimulatedAgent small(running_, "small", 1, {}, 1, 4096);
  ASSERT_TRUE(small.Await(v1::ControllerMessage::kWelcome, &said));
  request.mutable_job()->set_name("jobs/another");
  const grpc::Status refused = running_.Create(request, &job);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(FieldsOf(refused), ElementsAre("parallel"));
  EXPECT_THAT(refused.error_message(), HasSubstr("small has 4.00 KiB for each rank"));
}

TEST_F(JobOperations, ListsAreFilteredAndOrdered) {
  Create("a", "nlp");
  Create("b", "vision", 5);
  Create("c", "nlp", 9);
  EXPECT_THAT(List("spec.labels.team = nlp"), ElementsAre("a", "c"));
  EXPECT_THAT(List("state = QUEUED", "priority desc"), ElementsAre("c", "b", "a"));
  v1::ListJobsRequest request;
  request.set_filter("state = ");
  Deadline context;
  v1::ListJobsResponse response;
  const grpc::Status refused = running_.jobs->ListJobs(&context, request, &response);
  EXPECT_THAT(FieldsOf(refused), ElementsAre("filter"));
  EXPECT_THAT(refused.error_message(), HasSubstr("column 9"));
}

TEST_F(JobOperations, UpdatesAreCheckedAndMadeWithTheEtagSeen) {
  const v1::Job job = Create("a");
  v1::UpdateJobRequest request;
  request.mutable_job()->set_name("jobs/a");
  request.mutable_job()->set_etag(job.etag());
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(2'000'000);
  request.mutable_update_mask()->add_paths("spec.resources.priority");
  v1::Job updated;
  Deadline bad;
  EXPECT_THAT(FieldsOf(running_.jobs->UpdateJob(&bad, request, &updated)),
              ElementsAre("resources.priority"));
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(3);
  Deadline good;
  ASSERT_TRUE(running_.jobs->UpdateJob(&good, request, &updated).ok());
  EXPECT_EQ(updated.spec().resources().priority(), 3);
  EXPECT_NE(updated.etag(), job.etag());
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(4);
  Deadline late;
  const grpc::Status refused = running_.jobs->UpdateJob(&late, request, &updated);
  EXPECT_EQ(refused.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonOf(refused), "ETAG_MISMATCH");
}

TEST_F(JobOperations, ASelectionIsToldThenCancelled) {
  Create("a", "nlp");
  Create("b", "vision");
  Create("c", "nlp");
  v1::CancelJobsRequest request;
  request.set_filter("spec.labels.team = nlp");
  request.set_validate_only(true);
  v1::CancelJobsResponse response;
  Deadline check;
  ASSERT_TRUE(running_.jobs->CancelJobs(&check, request, &response).ok());
  EXPECT_EQ(response.jobs_size(), 2);
  EXPECT_THAT(List("state = CANCELLED"), ElementsAre());
  request.set_validate_only(false);
  request.set_reason("wrong data");
  Deadline really;
  ASSERT_TRUE(running_.jobs->CancelJobs(&really, request, &response).ok());
  EXPECT_THAT(List("state = CANCELLED"), ElementsAre("a", "c"));
  EXPECT_THAT(response.jobs(0).reason(), HasSubstr("wrong data"));
  request.clear_filter();
  Deadline none;
  EXPECT_THAT(FieldsOf(running_.jobs->CancelJobs(&none, request, &response)),
              ElementsAre("filter"));
}

TEST_F(JobOperations, DeletedJobsLeaveTheirNameAndTellTheirWatchers) {
  const v1::Job first = Create("a");
  v1::WatchJobsRequest watch;
  watch.set_resource_version(first.resource_version());
  Deadline context;
  const auto reader = running_.jobs->WatchJobs(&context, watch);
  EXPECT_EQ(ReasonOf(Delete("a")), "JOB_NOT_OVER");
  ASSERT_TRUE(Delete("a", /*force=*/true).ok());
  v1::WatchJobsResponse change;
  do {
    ASSERT_TRUE(reader->Read(&change));
  } while (!change.deleted());
  EXPECT_EQ(change.job().name(), "jobs/a");
  EXPECT_FALSE(change.job().spec().has_model());
  EXPECT_GT(change.resource_version(), first.resource_version());
  EXPECT_EQ(Delete("a").error_code(), grpc::NOT_FOUND);
  Create("a");
  do {
    ASSERT_TRUE(reader->Read(&change));
  } while (!change.has_job());
  EXPECT_FALSE(change.deleted());
  EXPECT_EQ(change.job().state(), v1::Job::QUEUED);
}

TEST_F(JobOperations, EventsComeInPagesNewestFirst) {
  Create("a");
  for (const bool suspend : {true, false, true}) {
    Deadline context;
    v1::Job job;
    v1::SuspendJobRequest pause;
    v1::ResumeJobRequest resume;
    pause.set_name("jobs/a");
    resume.set_name("jobs/a");
    ASSERT_TRUE((suspend ? running_.jobs->SuspendJob(&context, pause, &job)
                         : running_.jobs->ResumeJob(&context, resume, &job))
                    .ok());
    EXPECT_EQ(job.suspended(), suspend);
  }
  v1::ListJobEventsRequest request;
  request.set_parent("jobs/a");
  request.set_page_size(3);
  std::vector<std::string> types;
  do {
    Deadline context;
    v1::ListJobEventsResponse response;
    ASSERT_TRUE(running_.jobs->ListJobEvents(&context, request, &response).ok());
    for (const v1::JobEvent& event : response.events()) types.push_back(event.type());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(types, ElementsAre("SUSPENDED", "RESUMED", "SUSPENDED", "CREATED"));
  request.set_parent("jobs/none");
  Deadline context;
  v1::ListJobEventsResponse response;
  EXPECT_EQ(running_.jobs->ListJobEvents(&context, request, &response).error_code(),
            grpc::NOT_FOUND);
}

TEST(NodeOperations, NodesAreWatchedThroughDrainsAndTheirEnd) {
  RunningController running;
  v1::ApplyPolicyRequest fast;
  fast.mutable_policy()->mutable_timing()->set_heartbeat_seconds(0.2);
  fast.mutable_policy()->mutable_timing()->set_node_lost_seconds(0.4);
  v1::ApplyPolicyResponse applied;
  Deadline applying;
  ASSERT_TRUE(running.cluster->ApplyPolicy(&applying, fast, &applied).ok());
  v1::ControllerMessage said;
  {
    SimulatedAgent agent(running, "n0");
    ASSERT_TRUE(agent.Await(v1::ControllerMessage::kWelcome, &said));
  }
  SimulatedAgent stays(running, "n1");
  ASSERT_TRUE(stays.Await(v1::ControllerMessage::kWelcome, &said));
  v1::ListNodesResponse list;
  Deadline listing;
  ASSERT_TRUE(running.cluster->ListNodes(&listing, {}, &list).ok());
  v1::WatchNodesRequest watch;
  watch.set_resource_version(list.resource_version());
  Deadline watching;
  const auto reader = running.cluster->WatchNodes(&watching, watch);
  v1::DrainNodeRequest drain;
  drain.set_name("nodes/n1");
  drain.set_reason("new disk");
  drain.set_etag("\"0\"");
  v1::Node node;
  Deadline stale;
  EXPECT_EQ(ReasonOf(running.cluster->DrainNode(&stale, drain, &node)), "ETAG_MISMATCH");
  drain.clear_etag();
  Deadline draining;
  ASSERT_TRUE(running.cluster->DrainNode(&draining, drain, &node).ok());
  v1::WatchNodesResponse change;
  do {
    ASSERT_TRUE(reader->Read(&change));
  } while (!change.has_node() || change.node().name() != "nodes/n1");
  EXPECT_EQ(change.node().drain_reason(), "new disk");
  v1::DeleteNodeRequest remove;
  remove.set_name("nodes/n1");
  v1::DeleteNodeResponse gone;
  Deadline refused;
  EXPECT_EQ(ReasonOf(running.cluster->DeleteNode(&refused, remove, &gone)), "NODE_IN_USE");
  remove.set_name("nodes/n0");
  grpc::Status deleted;
  do {  // it counts as there until it was silent for a while
    Deadline context;
    deleted = running.cluster->DeleteNode(&context, remove, &gone);
  } while (ReasonOf(deleted) == "NODE_IN_USE");
  ASSERT_TRUE(deleted.ok()) << deleted.error_message();
  do {
    ASSERT_TRUE(reader->Read(&change));
  } while (!change.deleted());
  EXPECT_EQ(change.node().name(), "nodes/n0");
}

}  // namespace
}  // namespace strata::controller
