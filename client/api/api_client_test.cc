#include "client/api/api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>

#include "client/api/errors.h"
#include "client/api/fake_server.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kFailedPrecondition = 9;
constexpr int kUnavailable = 14;
constexpr int kUnauthenticated = 16;

v1::Job NamedJob(const std::string& name) {
  v1::Job job;
  job.set_name(name);
  return job;
}

// A serialised google.rpc.Status with these details.
std::string Details(const std::string& reason,
                    const std::vector<std::pair<std::string, std::string>>& fields) {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("strata");
  status.add_details()->PackFrom(info);
  google::rpc::BadRequest request;
  for (const auto& [field, description] : fields) {
    auto* violation = request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
  }
  status.add_details()->PackFrom(request);
  return status.SerializeAsString();
}

class ApiClientTest : public testing::Test {
 protected:
  FakeServer server_;
  std::unique_ptr<ApiClient> client_ = MakeApiClient(server_.address(), ApiOptions());
};

// As somebody for whom the socket's directory is shut; ends with the exit code.
void AskAsAStranger(const std::string& path) {
  if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
  const auto client = MakeApiClient({.host = "", .path = path}, ApiOptions());
  const absl::Status status = client->GetCluster().status();
  std::fprintf(stderr, "%s", std::string(status.message()).c_str());
  _exit(ExitCodeOfCall(status));
}

TEST(ApiClientDeathTest, ASocketThatIsForOthersIsNotAllowed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string directory = "/tmp/strata-shut";  // short: it is in a socket's address
  mkdir(directory.c_str(), 0);
  EXPECT_EXIT(AskAsAStranger(directory + "/strata.sock"), testing::ExitedWithCode(4),
              "permission denied.*--socket-group");
}

TEST_F(ApiClientTest, ListsAreFollowedThroughAllPages) {
  for (const char* name : {"jobs/a", "jobs/b", "jobs/c", "jobs/d", "jobs/e"}) {
    server_.Put(NamedJob(name));
  }
  const auto jobs = client_->ListJobs({});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 5u);
  EXPECT_EQ(jobs->back().name(), "jobs/e");
  EXPECT_EQ(server_.calls("ListJobs"), 3);
}

TEST_F(ApiClientTest, EveryUnaryCallHasADeadlineAndStreamsHaveNone) {
  double unary = 0;
  double stream = 0;
  server_.before = [&](const std::string& method, double seconds) {
    (method == "StreamProgress" ? stream : unary) = seconds;
    return FakeAnswer();
  };
  server_.progress = [](const auto&, const auto&) { return FakeAnswer(); };
  EXPECT_TRUE(client_->GetCluster().ok());
  EXPECT_GT(unary, 1);
  EXPECT_LE(unary, 10.5);  // gRPC rounds them up
  const auto opened = client_->StreamProgress("jobs/a", 0);
  v1::JobProgress progress;
  EXPECT_EQ(opened->Next(30, &progress), Stream<v1::JobProgress>::Event::kEnd);
  EXPECT_TRUE(std::isinf(stream));
}

TEST_F(ApiClientTest, UnavailableIsTriedAgainAndTheSameRequestIdIsSent) {
  int refusals = 2;
  std::vector<std::string> ids;
  server_.create = [&](const v1::CreateJobRequest& request, v1::Job* job) -> FakeAnswer {
    ids.push_back(request.request_id());
    if (refusals-- > 0) return {kUnavailable, "starting"};
    *job = request.job();
    return {};
  };
  v1::CreateJobRequest request;
  request.mutable_job()->set_name("jobs/a");
  request.set_request_id("once");
  const auto job = client_->CreateJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(ids, std::vector<std::string>(3, "once"));
}

TEST_F(ApiClientTest, OtherFailuresAreNotRepeated) {
  server_.create = [](const auto&, auto*) -> FakeAnswer { return {kPermissionDenied, "no"}; };
  EXPECT_FALSE(client_->CreateJob({}).ok());
  EXPECT_EQ(server_.calls("CreateJob"), 1);
}

TEST_F(ApiClientTest, AServerThatIsGoneIsUnavailableAndNamed) {
  const std::string address = server_.address().ToString();
  server_.Stop();
  const auto job = client_->GetJob("jobs/a");
  EXPECT_EQ(ExitCodeOfCall(job.status()), 6);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(address));
  server_.Start();
}

// The kernel accepts for it, and nobody shakes hands: as on a machine that is too busy.
TEST(ApiClientConnection, OneThatIsInProgressHasTheWholeDeadline) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
  ApiOptions options;
  options.deadline_seconds = 2.5;  // longer than the patience with refusals
  int reminded = 0;
  options.on_silence = [&] { ++reminded; };
  const ServerAddress address = {"127.0.0.1", ntohs(name.sin_port)};
  const auto job = MakeApiClient(address, options)->GetJob("jobs/a");
  EXPECT_TRUE(absl::IsDeadlineExceeded(job.status())) << job.status();
  EXPECT_EQ(ExitCodeOfCall(job.status()), 6);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(address.ToString()));
  EXPECT_EQ(reminded, 1);
  close(fd);
}

TEST_F(ApiClientTest, CallsWhoseConnectionBreaksAreRepeatedLongerThanRefusedOnes) {
  ApiOptions options;
  options.patience_seconds = 0;
  const auto client = MakeApiClient(server_.address(), options);
  int left = 3;
  server_.before = [&](const auto&, double) -> FakeAnswer {
    if (left-- > 0) return {kUnavailable, "Socket closed"};
    return {};
  };
  EXPECT_TRUE(client->GetCluster().ok());
  left = 1;
  server_.before = [&](const auto&, double) -> FakeAnswer {
    if (left-- > 0) return {kUnavailable, "Connection refused"};
    return {};
  };
  EXPECT_TRUE(absl::IsUnavailable(client->GetCluster().status()));
}

TEST_F(ApiClientTest, AServerThatDoesNotAnswerInTimeIsNamed) {
  ApiOptions options;
  options.deadline_seconds = 0.2;
  const auto hasty = MakeApiClient(server_.address(), options);
  server_.before = [](const auto&, double) -> FakeAnswer { return {kDeadlineExceeded, "late"}; };
  const auto job = hasty->GetJob("jobs/a");
  EXPECT_EQ(ExitCodeOfCall(job.status()), 6);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(server_.address().ToString()));
}

TEST_F(ApiClientTest, CodesBecomeExitCodes) {
  FakeAnswer answer;
  server_.create = [&](const auto&, auto*) { return answer; };
  const auto exit_code = [&](FakeAnswer given) {
    answer = std::move(given);
    return ExitCodeOfCall(client_->CreateJob({}).status());
  };
  EXPECT_EQ(exit_code({kInvalidArgument, "x"}), 2);
  EXPECT_EQ(exit_code({kFailedPrecondition, "x"}), 3);
  EXPECT_EQ(exit_code({kFailedPrecondition, "x", Details("INFEASIBLE", {})}), 3);
  EXPECT_EQ(exit_code({kFailedPrecondition, "x", Details("NOT_NOW", {})}), 1);
  EXPECT_EQ(exit_code({kPermissionDenied, "x"}), 4);
  EXPECT_EQ(exit_code({kUnauthenticated, "x"}), 4);
  EXPECT_EQ(exit_code({kNotFound, "x"}), 5);
  EXPECT_EQ(exit_code({13, "x"}), 1);
}

TEST_F(ApiClientTest, FieldViolationsPointIntoTheJobFile) {
  server_.create = [](const auto&, auto*) -> FakeAnswer {
    return {
        kInvalidArgument, "two problems",
        Details("INVALID_SPEC", {{"job.spec.train.steps", "too many"}, {"model.hidden", "odd"}})};
  };
  const auto job = client_->CreateJob({});
  EXPECT_EQ(ReasonOf(job.status()), "INVALID_SPEC");
  spec::PositionMap positions;
  positions.Add("train.steps", {14, 3});
  positions.Add("model", {2, 1});
  const absl::Status placed = AtPositions(job.status(), "job.yaml", positions);
  EXPECT_EQ(placed.message(),
            "job.yaml:2:1: model.hidden: odd\njob.yaml:14:3: train.steps: too many\n");
  EXPECT_EQ(ExitCodeOfCall(placed), 2);
  EXPECT_EQ(ReasonOf(placed), "INVALID_SPEC");
}

TEST_F(ApiClientTest, DetailsThatAreNoneAreIgnored) {
  server_.create = [](const auto&, auto*) -> FakeAnswer {
    return {kInvalidArgument, "x", "\xff\xff not a message"};
  };
  const auto job = client_->CreateJob({});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(ViolationsOf(job.status()).empty());
}

TEST_F(ApiClientTest, AStreamIsIdleWhileNothingComesAndItsOwnerMayLeave) {
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    v1::JobProgress progress;
    progress.mutable_step()->set_step(1);
    while (send(progress)) {
    }
    return {};
  };
  auto stream = client_->StreamProgress("jobs/a", 0);
  v1::JobProgress progress;
  ASSERT_EQ(stream->Next(30, &progress), Stream<v1::JobProgress>::Event::kMessage);
  EXPECT_EQ(progress.step().step(), 1);
  stream.reset();  // ends the server's call too: else the server's end would wait for it
}

TEST_F(ApiClientTest, AStreamTellsWhyItEnded) {
  server_.progress = [](const auto&, const auto&) -> FakeAnswer { return {kNotFound, "no such"}; };
  const auto stream = client_->StreamProgress("jobs/a", 0);
  v1::JobProgress progress;
  ASSERT_EQ(stream->Next(30, &progress), Stream<v1::JobProgress>::Event::kEnd);
  EXPECT_TRUE(absl::IsNotFound(stream->status()));
}

}  // namespace
}  // namespace strata::client
