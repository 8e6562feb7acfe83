// The services end to end: jobs, watches, sessions of simulated agents, progress and logs.
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using MessageCase = v1::ControllerMessage::MessageCase;

class ServicesTest : public testing::Test {
 protected:
  ServicesTest() { fs::remove_all(folder_); }
  ~ServicesTest() override { fs::remove_all(folder_); }
  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ServicesTest, JobsAreCreatedOnceAndFoundAgain) {
  RunningController running;
  v1::CreateJobRequest request = GoodRequest("a");
  request.set_request_id("r1");
  v1::Job job;
  ASSERT_TRUE(running.Create(request, &job).ok());
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  EXPECT_EQ(job.spec().train().sequence(), 256) << "defaults are filled in";
  EXPECT_EQ(job.directory(), testing::TempDir() + "/controller/jobs/a");
  EXPECT_EQ(job.spec().checkpoint().directory(), job.directory() + "/checkpoints");
  v1::Job again;
  ASSERT_TRUE(running.Create(request, &again).ok());
  EXPECT_EQ(again.resource_version(), job.resource_version());
  ASSERT_TRUE(running.Get("jobs/a", &again).ok());
  EXPECT_EQ(again.SerializeAsString(), job.SerializeAsString());

  request.set_request_id("r2");
  const grpc::Status taken = running.Create(request, &job);
  EXPECT_EQ(taken.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(taken), "NAME_TAKEN");
  const grpc::Status none = running.Get("jobs/none", &job);
  EXPECT_EQ(none.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(ReasonOf(none), "JOB_NOT_FOUND");
}

TEST_F(ServicesTest, ValidateOnlyChangesNothing) {
  RunningController running;
  v1::CreateJobRequest request = GoodRequest("a");
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_TRUE(running.Create(request, &job).ok());
  EXPECT_EQ(running.Get("jobs/a", &job).error_code(), grpc::NOT_FOUND);
}

TEST_F(ServicesTest, BadJobsAreRefusedByField) {
  RunningController running;
  v1::CreateJobRequest request = GoodRequest("a");
  request.mutable_job()->mutable_spec()->mutable_train()->set_steps(0);
  request.mutable_job()->mutable_spec()->mutable_model()->clear_hidden();
  v1::Job job;
  const grpc::Status status = running.Create(request, &job);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "INVALID_JOB");
  EXPECT_THAT(FieldsOf(status), testing::UnorderedElementsAre("train.steps", "model.hidden"));

  request = GoodRequest("Not A Name");
  EXPECT_EQ(running.Create(request, &job).error_code(), grpc::INVALID_ARGUMENT);
  request = GoodRequest("a");
  request.mutable_job()->set_directory("relative");
  EXPECT_THAT(FieldsOf(running.Create(request, &job)), ElementsAre("directory"));
}

TEST_F(ServicesTest, ListsComeInPages) {
  RunningController running;
  v1::Job job;
  std::set<std::string> created;
  for (int i = 0; i < 7; ++i) {
    created.insert(absl::StrCat("jobs/j", i));
    ASSERT_TRUE(running.Create(GoodRequest(absl::StrCat("j", i)), &job).ok());
  }
  v1::ListJobsRequest request;
  request.set_page_size(3);
  std::set<std::string> listed;
  std::vector<int> sizes;
  do {
    Deadline context;
    v1::ListJobsResponse response;
    ASSERT_TRUE(running.jobs->ListJobs(&context, request, &response).ok());
    for (const v1::Job& found : response.jobs()) listed.insert(found.name());
    sizes.push_back(response.jobs_size());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, created);
  EXPECT_THAT(sizes, ElementsAre(3, 3, 1));

  request.set_page_token("bm8gdG9rZW4");
  Deadline context;
  v1::ListJobsResponse response;
  EXPECT_THAT(FieldsOf(running.jobs->ListJobs(&context, request, &response)),
              ElementsAre("page_token"));
}

TEST_F(ServicesTest, PagesOfLargeJobsFitIntoAMessage) {
  RunningController running;
  v1::Job job;
  for (int i = 0; i < 6; ++i) {
    v1::CreateJobRequest request = GoodRequest(absl::StrCat("j", i));
    request.mutable_job()->mutable_spec()->mutable_data()->mutable_train(0)->set_path(
        "/" + std::string(900'000, 'p'));
    ASSERT_TRUE(running.Create(request, &job).ok());
  }
  Deadline context;
  v1::ListJobsRequest all;
  all.set_view(v1::JOB_VIEW_FULL);
  v1::ListJobsResponse response;
  ASSERT_TRUE(running.jobs->ListJobs(&context, all, &response).ok());
  EXPECT_EQ(response.jobs_size(), 3);
  EXPECT_FALSE(response.next_page_token().empty());
}

TEST_F(ServicesTest, WatchGoesOnFromAVersion) {
  RunningController running;
  v1::Job job;
  ASSERT_TRUE(running.Create(GoodRequest("a"), &job).ok());
  v1::WatchJobsRequest request;
  request.set_resource_version(job.resource_version());
  v1::WatchJobsResponse change;
  {
    Deadline context;
    const auto reader = running.jobs->WatchJobs(&context, request);
    ASSERT_TRUE(running.Create(GoodRequest("b"), &job).ok());
    do {
      ASSERT_TRUE(reader->Read(&change));
    } while (!change.has_job());
    EXPECT_EQ(change.job().name(), "jobs/b");
    context.TryCancel();
  }
  ASSERT_TRUE(running.Create(GoodRequest("c"), &job).ok());
  ASSERT_TRUE(running.Create(GoodRequest("d"), &job).ok());
  request.set_resource_version(change.resource_version());
  Deadline context;
  const auto reader = running.jobs->WatchJobs(&context, request);
  std::vector<std::string> names;
  while (names.size() < 2 && reader->Read(&change)) {
    if (change.has_job()) names.push_back(change.job().name());
  }
  EXPECT_THAT(names, ElementsAre("jobs/c", "jobs/d"));
  do {  // a bookmark says how far it is
    ASSERT_TRUE(reader->Read(&change));
  } while (change.has_job());
  EXPECT_EQ(change.resource_version(), job.resource_version());
}

TEST_F(ServicesTest, WatchFromAnUnknownVersionIsOutOfRange) {
  RunningController running;
  v1::WatchJobsRequest request;
  request.set_resource_version(1000);
  Deadline context;
  const auto reader = running.jobs->WatchJobs(&context, request);
  v1::WatchJobsResponse change;
  EXPECT_FALSE(reader->Read(&change));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::OUT_OF_RANGE);
  EXPECT_EQ(ReasonOf(status), "RESOURCE_VERSION_UNKNOWN");
}

TEST_F(ServicesTest, SlowWatcherIsEndedAndDisturbsNobody) {
  RunningController running;
  Deadline context(10 * kPatience);
  const auto slow = running.jobs->WatchJobs(&context, {});
  v1::WatchJobsResponse change;
  v1::Job job;
  ASSERT_TRUE(running.Create(GoodRequest("first"), &job).ok());
  while (!change.has_job()) ASSERT_TRUE(slow->Read(&change));
  for (int i = 0; i < 45; ++i) {  // more than a watcher's buffer may hold
    v1::CreateJobRequest request = GoodRequest(absl::StrCat("j", i));
    request.mutable_job()->mutable_spec()->mutable_data()->mutable_train(0)->set_path(
        "/" + std::string(900'000, 'p'));
    ASSERT_TRUE(running.Create(request, &job).ok());
  }
  int read = 0;
  while (slow->Read(&change)) ++read;
  EXPECT_LT(read, 45);
  const grpc::Status status = slow->Finish();
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonOf(status), "SLOW_READER");
}

v1::AgentMessage About(const v1::JobEpoch& epoch, const char* kind) {
  v1::AgentMessage message;
  const std::string what = kind;
  if (what == "running") *message.mutable_running()->mutable_epoch() = epoch;
  if (what == "progress") *message.mutable_progress()->mutable_epoch() = epoch;
  if (what == "ended") *message.mutable_ended()->mutable_epoch() = epoch;
  return message;
}

// Plays a job of one rank up to RUNNING; the last message received is the START.
v1::JobEpoch RunJob(SimulatedAgent& agent) {
  v1::ControllerMessage said;
  EXPECT_TRUE(agent.Await(MessageCase::kPrepare, &said));
  const v1::JobEpoch epoch = said.prepare().epoch();
  v1::AgentMessage prepared;
  *prepared.mutable_prepared()->mutable_epoch() = epoch;
  auto& rank = *prepared.mutable_prepared()->add_ranks();
  rank.set_rank(0);
  rank.mutable_prepared()->set_address("address");
  prepared.mutable_prepared()->mutable_plan()->set_parameters(1000);
  EXPECT_TRUE(agent.Say(prepared));
  EXPECT_TRUE(agent.Await(MessageCase::kStart, &said));
  EXPECT_TRUE(agent.Say(About(epoch, "running")));
  return epoch;
}

v1::AgentMessage StepOf(const v1::JobEpoch& epoch, int64_t step) {
  v1::AgentMessage message = About(epoch, "progress");
  auto& record = *message.mutable_progress()->mutable_progress()->mutable_step();
  record.set_step(step);
  record.set_epoch(epoch.epoch());
  record.set_loss(1.0 / static_cast<double>(step));
  record.set_tokens(64);
  record.set_seconds(0.5);
  return message;
}

// A checkpoint from the rank's fragment to the controller's word.
void CommitCheckpoint(SimulatedAgent& agent, const v1::JobEpoch& epoch, int64_t step) {
  v1::AgentMessage message;
  auto& written = *message.mutable_written();
  *written.mutable_epoch() = epoch;
  written.set_step(step);
  (*written.mutable_fragments())[0] = "fragment";
  ASSERT_TRUE(agent.Say(message));
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(MessageCase::kWriteManifest, &said));
  auto& commit = *message.mutable_commit();
  *commit.mutable_epoch() = epoch;
  commit.mutable_checkpoint()->set_epoch(epoch.epoch());
  commit.mutable_checkpoint()->set_step(step);
  commit.mutable_checkpoint()->set_manifest_digest("digest");
  commit.mutable_checkpoint()->set_path("/checkpoints/step");
  ASSERT_TRUE(agent.Say(message));
  ASSERT_TRUE(agent.Await(MessageCase::kCommit, &said));
  EXPECT_TRUE(said.commit().accepted()) << said.commit().reason();
}

TEST_F(ServicesTest, ProgressIsReplayedFromTheFileThenLiveUntilTheEnd) {
  RunningController running(folder_);
  SimulatedAgent agent(running, "n0");
  v1::Job job;
  v1::CreateJobRequest wanted = GoodRequest("a");
  wanted.mutable_job()->mutable_spec()->mutable_train()->set_steps(3);
  ASSERT_TRUE(running.Create(wanted, &job).ok());
  const v1::JobEpoch epoch = RunJob(agent);
  v1::StreamProgressRequest request;
  request.set_name("jobs/a");
  v1::JobProgress progress;
  {  // whoever follows from the start tells when the controller has seen both steps
    Deadline context;
    const auto reader = running.jobs->StreamProgress(&context, request);
    ASSERT_TRUE(reader->Read(&progress));
    ASSERT_TRUE(agent.Say(StepOf(epoch, 1)));
    ASSERT_TRUE(agent.Say(StepOf(epoch, 2)));
    while (progress.step().step() != 2) ASSERT_TRUE(reader->Read(&progress));
    context.TryCancel();
  }
  fs::create_directories(job.directory());
  std::ofstream(job.directory() + "/metrics.jsonl")
      << "{\"step\": 7, \"loss\": 9, \"epoch\": 1, \"job_uid\": \"of an earlier job\"}\n"
      << "{\"step\": 1, \"loss\": 1, \"epoch\": 1, \"job_uid\": \"" << job.uid() << "\"}\n"
      << "{\"step\": 2, \"loss\": 0.5, \"epoch\": 1, \"job_uid\": \"" << job.uid() << "\"}\n";

  request.set_after_step(1);
  Deadline context;
  const auto reader = running.jobs->StreamProgress(&context, request);
  progress.Clear();
  std::vector<int64_t> steps;
  while (!progress.has_job() || progress.job().state() != v1::Job::RUNNING) {
    ASSERT_TRUE(reader->Read(&progress));
    if (progress.has_step()) steps.push_back(progress.step().step());
  }
  ASSERT_TRUE(agent.Say(StepOf(epoch, 3)));
  CommitCheckpoint(agent, epoch, 3);
  v1::AgentMessage ended = About(epoch, "ended");
  ended.mutable_ended()->mutable_finished()->set_outcome(v1::Finished::SUCCEEDED);
  ended.mutable_ended()->set_rank(-1);
  ASSERT_TRUE(agent.Say(ended));
  while (reader->Read(&progress)) {
    if (progress.has_step()) steps.push_back(progress.step().step());
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(steps, ElementsAre(2, 3));
  ASSERT_TRUE(progress.has_job());
  EXPECT_EQ(progress.job().state(), v1::Job::SUCCEEDED) << progress.job().reason();
}

TEST_F(ServicesTest, KindsOfMessagesThatAreNotKnownAreSkipped) {
  RunningController running;
  SimulatedAgent agent(running, "n0");
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(MessageCase::kWelcome, &said));
  v1::AgentMessage unknown;  // as one of a newer release comes out here
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(4000, 1);
  ASSERT_TRUE(agent.Say(unknown));
  v1::Job job;
  ASSERT_TRUE(running.Create(GoodRequest("a"), &job).ok());
  EXPECT_TRUE(agent.Await(MessageCase::kPrepare, &said)) << "the session goes on";
}

TEST_F(ServicesTest, LogsAreFollowedAndOutliveTheController) {
  v1::StreamLogsRequest request;
  request.set_name("jobs/a");
  request.set_rank(-1);
  v1::LogLine line;
  {
    RunningController running(folder_);
    SimulatedAgent agent(running, "n0");
    v1::Job job;
    ASSERT_TRUE(running.Create(GoodRequest("a"), &job).ok());
    const v1::JobEpoch epoch = RunJob(agent);
    v1::AgentMessage message;
    message.mutable_log()->set_job("jobs/a");
    message.mutable_log()->mutable_line()->set_epoch(epoch.epoch());
    message.mutable_log()->mutable_line()->set_text("hello");
    request.set_follow(true);
    Deadline context;
    const auto reader = running.jobs->StreamLogs(&context, request);
    ASSERT_TRUE(agent.Say(message));
    ASSERT_TRUE(reader->Read(&line));
    EXPECT_EQ(line.text(), "hello");
    ASSERT_TRUE(running.Cancel("jobs/a").ok());
    v1::ControllerMessage said;
    ASSERT_TRUE(agent.Await(MessageCase::kStop, &said));
    v1::AgentMessage ended = About(epoch, "ended");
    ended.mutable_ended()->mutable_finished()->set_outcome(v1::Finished::INTERRUPTED);
    ended.mutable_ended()->set_rank(-1);
    ASSERT_TRUE(agent.Say(ended));
    EXPECT_FALSE(reader->Read(&line));  // it ends with the job
    EXPECT_TRUE(reader->Finish().ok());
  }
  RunningController again(folder_);
  for (const bool follow : {false, true}) {  // an ended job's lines are read before the end
    request.set_follow(follow);
    Deadline context;
    const auto reader = again.jobs->StreamLogs(&context, request);
    ASSERT_TRUE(reader->Read(&line)) << follow;
    EXPECT_EQ(line.text(), "hello");
    EXPECT_FALSE(reader->Read(&line));
    EXPECT_TRUE(reader->Finish().ok());
  }
}

TEST_F(ServicesTest, JobsAndTermsSurviveARestart) {
  v1::Job job;
  int64_t term = 0;
  for (int round = 1; round <= 3; ++round) {
    RunningController running(folder_);
    Deadline context;
    v1::Cluster cluster;
    ASSERT_TRUE(running.cluster->GetCluster(&context, {}, &cluster).ok());
    EXPECT_GT(cluster.controller_term(), term);
    EXPECT_EQ(cluster.directory(), folder_);
    EXPECT_EQ(cluster.metrics_address(), running.controller().metrics_address());
    term = cluster.controller_term();
    for (int i = 1; i < round; ++i) {
      EXPECT_TRUE(running.Get(absl::StrCat("jobs/j", i), &job).ok());
    }
    ASSERT_TRUE(running.Create(GoodRequest(absl::StrCat("j", round)), &job).ok());
    EXPECT_TRUE(running.Stop().ok());
  }
}

TEST_F(ServicesTest, NodesAreListed) {
  RunningController running;
  SimulatedAgent first(running, "n0");
  SimulatedAgent second(running, "n1");
  v1::ControllerMessage said;
  ASSERT_TRUE(first.Await(MessageCase::kWelcome, &said));
  EXPECT_GT(said.controller_term(), 0);
  ASSERT_TRUE(second.Await(MessageCase::kWelcome, &said));
  Deadline context;
  v1::ListNodesRequest request;
  request.set_page_size(1);
  v1::ListNodesResponse response;
  ASSERT_TRUE(running.cluster->ListNodes(&context, request, &response).ok());
  ASSERT_EQ(response.nodes_size(), 1);
  EXPECT_EQ(response.nodes(0).name(), "nodes/n0");
  request.set_page_token(response.next_page_token());
  Deadline more;
  ASSERT_TRUE(running.cluster->ListNodes(&more, request, &response).ok());
  ASSERT_EQ(response.nodes_size(), 1);
  EXPECT_EQ(response.nodes(0).state(), v1::Node::READY);
  EXPECT_TRUE(response.next_page_token().empty());
  v1::GetNodeRequest wanted;
  wanted.set_name("nodes/n1");
  Deadline one;
  v1::Node node;
  ASSERT_TRUE(running.cluster->GetNode(&one, wanted, &node).ok());
  EXPECT_EQ(node.devices(), 1);
}

TEST_F(ServicesTest, NewerAgentProcessReplacesTheOlder) {
  RunningController running;
  SimulatedAgent older(running, "n0", /*incarnation=*/1);
  v1::ControllerMessage said;
  ASSERT_TRUE(older.Await(MessageCase::kWelcome, &said));
  SimulatedAgent newer(running, "n0", /*incarnation=*/2);
  ASSERT_TRUE(newer.Await(MessageCase::kWelcome, &said));
  EXPECT_TRUE(older.Await(MessageCase::kDismiss, &said));
  EXPECT_FALSE(older.Await(MessageCase::kWelcome, &said));
  const grpc::Status status = older.Finish();
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(ReasonOf(status), "DISMISSED");
}

TEST_F(ServicesTest, SessionsOutOfOrderAreRefused) {
  RunningController running;
  const auto session = [&](const std::vector<v1::AgentMessage>& messages) {
    Deadline context;
    const auto stream = running.agents->Session(&context);
    for (const auto& message : messages) stream->Write(message);
    v1::ControllerMessage said;
    while (stream->Read(&said)) {
    }
    return stream->Finish();
  };
  v1::AgentMessage hello;
  hello.set_incarnation(7);
  hello.mutable_register_()->set_node("n0");
  hello.mutable_register_()->set_device("cpu");  // otherwise it is sent away for that
  hello.mutable_register_()->set_devices(1);     // or for that
  v1::AgentMessage beat;
  beat.set_incarnation(7);
  beat.mutable_heartbeat();
  v1::AgentMessage other = beat;
  other.set_incarnation(8);
  v1::AgentMessage nameless = hello;
  nameless.mutable_register_()->set_node("../n0");
  EXPECT_THAT(FieldsOf(session({beat})), ElementsAre("register"));
  EXPECT_THAT(FieldsOf(session({hello, hello})), ElementsAre("register"));
  EXPECT_THAT(FieldsOf(session({hello, beat, other})), ElementsAre("incarnation"));
  EXPECT_THAT(FieldsOf(session({nameless})), ElementsAre("register.node"));
}

TEST_F(ServicesTest, StopEndsStreamsAndSessions) {
  RunningController running;
  SimulatedAgent agent(running, "n0");
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(MessageCase::kWelcome, &said));
  Deadline context;
  const auto watch = running.jobs->WatchJobs(&context, {});
  v1::WatchJobsResponse change;
  ASSERT_TRUE(watch->Read(&change));  // a bookmark: it is subscribed
  EXPECT_TRUE(running.Stop().ok());
  while (watch->Read(&change)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_FALSE(agent.Await(MessageCase::kDismiss, &said));
  EXPECT_EQ(agent.Finish().error_code(), grpc::UNAVAILABLE);
}

TEST_F(ServicesTest, DirectoryOrPortOfAnotherControllerIsRefused) {
  RunningController running(folder_);
  const common::MonotonicClock clock{};
  Controller::Options options;
  options.directory = folder_;
  const auto same_directory = Controller::Start(options, &clock);
  EXPECT_THAT(std::string(same_directory.status().message()), HasSubstr("is in use"));
  options.directory = folder_ + "/other";
  options.listen = {running.controller().address()};
  const auto same_port = Controller::Start(options, &clock);
  EXPECT_THAT(std::string(same_port.status().message()),
              HasSubstr(options.listen[0] + " is in use"));
  options.listen = {"127.0.0.1:0"};
  options.metrics_listen = running.controller().metrics_address();
  const auto same_metrics = Controller::Start(options, &clock);
  EXPECT_THAT(std::string(same_metrics.status().message()), HasSubstr(options.metrics_listen));
}

}  // namespace
}  // namespace strata::controller
