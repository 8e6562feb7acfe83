// Reads are answered by readers alone: while none of these is free, writes and agents are.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;

using MessageCase = v1::ControllerMessage::MessageCase;

class Reads : public testing::Test {
 protected:
  Reads() : readers_(std::make_shared<ReadPool>(1, 100)), running_("", With(readers_)) {}
  ~Reads() override { Unblock(); }

  // The one reader does nothing else until Unblock.
  void Block() {
    const auto begun = std::make_shared<Gate>();
    ASSERT_TRUE(readers_->Run([this, begun] {
      begun->Open();
      free_.Wait();
    }));
    begun->Wait();
  }
  void Unblock() {
    free_.Open();
    for (std::thread& asking : asking_) {
      if (asking.joinable()) asking.join();
    }
  }
  // On a thread of its own; OK is expected.
  template <typename Stub, typename Request, typename Response>
  void Ask(Stub& stub,
           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
           Request request, Response* response) {
    asking_.emplace_back([this, &stub, method, request = std::move(request), response] {
      Deadline context;
      const grpc::Status status = (stub.*method)(&context, request, response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      ++answered_;
    });
  }
  void Create(const std::string& name) {
    v1::Job job;
    const grpc::Status status = running_.Create(GoodRequest(name), &job);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  Gate free_;
  std::vector<std::thread> asking_;
  std::atomic<int> answered_{0};
  const std::shared_ptr<ReadPool> readers_;
  RunningController running_;

 private:
  static Controller::Options With(const std::shared_ptr<ReadPool>& readers) {
    Controller::Options options;
    options.readers = readers;
    return options;
  }
};

TEST_F(Reads, WritesAndAgentsAreAnsweredWhileAllReadersAreBusy) {
  SimulatedAgent agent(running_, "n0");
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(MessageCase::kWelcome, &said));
  Create("a");
  ASSERT_TRUE(agent.Await(MessageCase::kPrepare, &said));
  for (const char* name : {"chosen-1", "chosen-2", "other"}) Create(name);

  Block();
  const auto access = v1::AccessService::NewStub(running_.channel());
  v1::ExplainJobRequest explain;
  explain.set_name("jobs/other");
  v1::ExplainJobResponse explained;
  Ask(*running_.jobs, &v1::JobService::Stub::ExplainJob, explain, &explained);
  v1::ListJobEventsRequest events;
  events.set_parent("jobs/a");
  v1::ListJobEventsResponse listed;
  Ask(*running_.jobs, &v1::JobService::Stub::ListJobEvents, events, &listed);
  v1::CancelJobsRequest choose;
  choose.set_filter("name = chosen-*");
  v1::CancelJobsResponse cancelled;
  Ask(*running_.jobs, &v1::JobService::Stub::CancelJobs, choose, &cancelled);
  v1::GetPolicyResponse policy;
  Ask(*running_.cluster, &v1::ClusterService::Stub::GetPolicy, v1::GetPolicyRequest(), &policy);
  v1::ListAuditRecordsResponse audit;
  Ask(*access, &v1::AccessService::Stub::ListAuditRecords, v1::ListAuditRecordsRequest(), &audit);

  for (int i = 0; i < 20; ++i) Create(absl::StrCat("later-", i));
  EXPECT_TRUE(running_.Cancel("jobs/chosen-2").ok());
  v1::AgentMessage beat, prepared;
  beat.mutable_heartbeat();
  ASSERT_TRUE(agent.Say(beat));
  *prepared.mutable_prepared()->mutable_epoch() = said.prepare().epoch();
  prepared.mutable_prepared()->add_ranks()->mutable_prepared()->set_address("address");
  prepared.mutable_prepared()->mutable_plan()->set_parameters(1000);
  ASSERT_TRUE(agent.Say(prepared));
  ASSERT_TRUE(agent.Await(MessageCase::kStart, &said));
  EXPECT_EQ(answered_, 0) << "a read was answered by somebody else";

  Unblock();
  EXPECT_EQ(answered_, 5);
  EXPECT_THAT(absl::StrJoin(explained.lines(), "\n"), HasSubstr("n0 is used by a."));
  EXPECT_EQ(listed.events(listed.events_size() - 1).type(), "CREATED");
  EXPECT_EQ(policy.projects(0).active_jobs(), 1);
  EXPECT_GE(audit.records_size(), 4);
  ASSERT_EQ(cancelled.jobs_size(), 1) << "the other one was over when it came to be cancelled";
  EXPECT_EQ(cancelled.jobs(0).name(), "jobs/chosen-1");
  EXPECT_EQ(cancelled.jobs(0).state(), v1::Job::CANCELLED);
}

// What was chosen from a snapshot is looked at again where it is decided about.
TEST_F(Reads, WhatNoLongerMatchesIsNotCancelled) {
  Create("a");
  v1::CancelJobsRequest choose;
  choose.set_filter("priority = 0");
  choose.set_validate_only(true);
  v1::CancelJobsResponse cancelled;
  Deadline look;
  ASSERT_TRUE(running_.jobs->CancelJobs(&look, choose, &cancelled).ok());
  ASSERT_EQ(cancelled.jobs_size(), 1);
  choose.set_validate_only(false);
  Block();
  Ask(*running_.jobs, &v1::JobService::Stub::CancelJobs, choose, &cancelled);
  v1::UpdateJobRequest update;
  update.mutable_job()->set_name("jobs/a");
  update.mutable_job()->mutable_spec()->mutable_resources()->set_priority(5);
  update.mutable_update_mask()->add_paths("spec.resources.priority");
  v1::Job updated;
  Deadline context;
  ASSERT_TRUE(running_.jobs->UpdateJob(&context, update, &updated).ok());
  Unblock();
  EXPECT_EQ(cancelled.jobs_size(), 0);
  v1::Job job;
  ASSERT_TRUE(running_.Get("jobs/a", &job).ok());
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
}

}  // namespace
}  // namespace strata::controller
