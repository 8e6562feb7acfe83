// The daemon as a process: its flags, its end, and what survives its death.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/daemon_testing.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/strata/v1/jobs.grpc.pb.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(DaemonTest, EndsInOrderOnSigterm) {
  const Process process = Start("a");
  EXPECT_THAT(process.address, testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_NE(process.address, process.metrics);
  const int status = End(process, SIGTERM);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(fs::exists(folder_ + "/a.ready"));
}

TEST_F(DaemonTest, NobodyElseMayReadItsState) {
  const mode_t before = umask(022);
  Start("a");
  umask(before);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/a")) {
    const fs::perms others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST_F(DaemonTest, ServesAgainAfterMoreConnectionsThanItMayHaveFiles) {
  const Process process = Start("a", "127.0.0.1:0", /*files=*/200);
  const std::vector<int> idle = Connect(process.address, 400);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  const auto jobs = v1::JobService::NewStub(
      grpc::CreateCustomChannel(process.address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::ListJobsResponse listed;
  const grpc::Status status = jobs->ListJobs(&context, {}, &listed);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (const int file : idle) close(file);
}

TEST_F(DaemonTest, HalfOpenRequestsDoNotBlockTheMetricsPage) {
  const Process process = Start("a");
  const std::vector<int> half = Connect(process.metrics, 4);
  for (const int file : half) EXPECT_GT(write(file, "GET /metr", 9), 0);
  const int file = Connect(process.metrics, 1).front();
  const timeval patience = {30, 0};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  ASSERT_GT(write(file, request.data(), request.size()), 0);
  char answer[13] = {};
  ASSERT_GT(read(file, answer, sizeof(answer) - 1), 0);
  EXPECT_STREQ(answer, "HTTP/1.1 200");
  close(file);
  for (const int open : half) close(open);
}

TEST_F(DaemonTest, TakenPortsAndDirectoriesAreNamed) {
  const Process process = Start("a");
  const Outcome port = RunToEnd({"--dir", folder_ + "/b", "--listen", process.address});
  EXPECT_EQ(WEXITSTATUS(port.status), 1);
  EXPECT_EQ(port.text, "strata-controller: " + process.address + " is in use\n");
  const Outcome directory = RunToEnd({"--dir", folder_ + "/a", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(WEXITSTATUS(directory.status), 1);
  EXPECT_THAT(directory.text, HasSubstr(folder_ + "/a is in use by another controller"));
  const Outcome metrics = RunToEnd(
      {"--dir", folder_ + "/b", "--listen", "127.0.0.1:0", "--metrics-listen", process.metrics});
  EXPECT_EQ(WEXITSTATUS(metrics.status), 1);
  EXPECT_THAT(metrics.text, HasSubstr(process.metrics + " is in use"));
}

TEST_F(DaemonTest, WhatIsWrongWithItsArgumentsIsNamed) {
  const Outcome unknown = RunToEnd({"--listne", "127.0.0.1:0"});
  EXPECT_EQ(WEXITSTATUS(unknown.status), 2);
  EXPECT_THAT(unknown.text, HasSubstr("--listne"));
  EXPECT_THAT(RunToEnd({"--listen", "127.0.0.1:0"}).text, HasSubstr("--dir: missing"));
  EXPECT_THAT(RunToEnd({"--dir", folder_ + "/a", "--audit-records", "0"}).text,
              HasSubstr("--audit-records: Value 0 not in range"));
}

TEST_F(DaemonTest, DamagedStateIsRefused) {
  fs::create_directories(folder_ + "/a");
  std::ofstream(folder_ + "/a/controller.db") << std::string(10000, 'x');
  const Outcome outcome = RunToEnd({"--dir", folder_ + "/a", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
  EXPECT_THAT(outcome.text, HasSubstr(folder_ + "/a/controller.db is damaged"));
  EXPECT_THAT(outcome.text, HasSubstr("put back a copy"));
}

TEST_F(DaemonTest, StateThatHasGoneFromBesideJobsIsNotTakenForANewCluster) {
  fs::create_directories(folder_ + "/a/jobs/small");
  std::ofstream(folder_ + "/a/controller.db") << "";
  for (int start = 0; start < 2; ++start) {  // the first one has made nothing of it
    const Outcome outcome = RunToEnd({"--dir", folder_ + "/a", "--listen", "127.0.0.1:0"});
    EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
    EXPECT_THAT(outcome.text, HasSubstr(folder_ + "/a/controller.db is empty"));
  }
}

TEST_F(DaemonTest, EndsWithoutAcknowledgingWhatItCannotWrite) {
  Process process = Start("a");
  auto stub = v1::JobService::NewStub(
      grpc::CreateChannel(process.address, grpc::InsecureChannelCredentials()));
  const auto create = [&](int i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::Job job;
    return stub->CreateJob(&context, GoodRequest("j" + std::to_string(i)), &job);
  };
  ASSERT_TRUE(create(0).ok());
  const rlimit limit = {256 << 10, 256 << 10};  // of any file: soon no commit can be written
  ASSERT_EQ(prlimit(process.pid, RLIMIT_FSIZE, &limit, nullptr), 0);
  int acknowledged = 1;
  grpc::Status status;
  while ((status = create(acknowledged)).ok()) ++acknowledged;
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  EXPECT_LT(acknowledged, 1000);
  int ended = 0;
  waitpid(process.pid, &ended, 0);
  std::erase(running_, process.pid);
  EXPECT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(WEXITSTATUS(ended), 1);
  EXPECT_THAT(ReadFile(folder_ + "/a.output"), HasSubstr(folder_ + "/a/controller.db"));
  process = Start("a");
  stub = v1::JobService::NewStub(
      grpc::CreateChannel(process.address, grpc::InsecureChannelCredentials()));
  for (int i = 0; i < acknowledged; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::GetJobRequest request;
    request.set_name("jobs/j" + std::to_string(i));
    v1::Job job;
    ASSERT_TRUE(stub->GetJob(&context, request, &job).ok()) << i << " of " << acknowledged;
  }
}

TEST_F(DaemonTest, MayOpenAsManyFilesAsItsHardLimitAllows) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Process process = Start("a");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit now = {};
  ASSERT_EQ(prlimit(process.pid, RLIMIT_NOFILE, nullptr, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
}

TEST_F(DaemonTest, OtherAddressesThanLoopbackNeedAWord) {
  for (const auto& [flag, word] : {std::pair("--listen", " --insecure-listen"),
                                   std::pair("--metrics-listen", " --metrics-insecure-listen")}) {
    const Outcome outcome = RunToEnd({"--dir", folder_ + "/a", flag, "0.0.0.0:0"});
    EXPECT_EQ(WEXITSTATUS(outcome.status), 2);
    EXPECT_THAT(outcome.text, HasSubstr(word));
  }
  // One is not the other's.
  const Outcome other =
      RunToEnd({"--dir", folder_ + "/a", "--metrics-listen", "0.0.0.0:0", "--insecure-listen"});
  EXPECT_EQ(WEXITSTATUS(other.status), 2);
  EXPECT_EQ(WEXITSTATUS(RunToEnd({"--dir", folder_ + "/a", "--listen", "nowhere"}).status), 2);
  EXPECT_EQ(WEXITSTATUS(RunToEnd({}).status), 2);
  EXPECT_EQ(WEXITSTATUS(RunToEnd({"--version"}).status), 0);
}

grpc::Status ListJobsAt(const std::string& address) {
  const auto jobs =
      v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::ListJobsResponse listed;
  return jobs->ListJobs(&context, {}, &listed);
}

TEST_F(DaemonTest, UnixSocketsAreServedAndThoseOfDeadProcessesReplaced) {
  const std::string socket = "unix:" + SocketFolder() + "/a.sock";
  Process process = Start("a", socket);
  EXPECT_EQ(process.address, socket);
  EXPECT_TRUE(ListJobsAt(socket).ok());
  const Outcome second = RunToEnd({"--dir", folder_ + "/b", "--listen", socket});
  EXPECT_EQ(WEXITSTATUS(second.status), 1);
  EXPECT_EQ(second.text, "strata-controller: " + socket + " is in use\n");
  EXPECT_TRUE(ListJobsAt(socket).ok());  // the first one's still
  End(process, SIGKILL);
  EXPECT_TRUE(fs::exists(SocketFolder() + "/a.sock"));
  process = Start("a", socket);
  EXPECT_TRUE(ListJobsAt(socket).ok());
  End(process, SIGTERM);
  EXPECT_FALSE(fs::exists(SocketFolder() + "/a.sock"));
  std::ofstream(SocketFolder() + "/file") << "mine";
  const Outcome file =
      RunToEnd({"--dir", folder_ + "/b", "--listen", "unix:" + SocketFolder() + "/file"});
  EXPECT_THAT(file.text, HasSubstr("file is in use"));
  EXPECT_EQ(ReadFile(SocketFolder() + "/file"), "mine");
}

// 0, or why that user cannot connect to the socket.
int ConnectAs(uid_t uid, gid_t gid, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(gid) != 0 || setuid(uid) != 0) _exit(255);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected =
        connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    _exit(connected ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(DaemonTest, OtherUsersCannotUseTheSocketUnlessTheirGroupMay) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  constexpr uid_t kOther = 65534;
  constexpr gid_t kOthers = 65533, kGroup = 65534;  // nogroup
  const std::string path = SocketFolder() + "/a.sock";
  Process process = Start("a", "unix:" + path);
  EXPECT_EQ(ConnectAs(0, 0, path), 0);
  EXPECT_EQ(ConnectAs(kOther, kGroup, path), EACCES);
  End(process, SIGTERM);
  process = Start("a", "unix:" + path, 0, {"--socket-group", "nogroup"});
  EXPECT_EQ(ConnectAs(kOther, kGroup, path), 0);
  EXPECT_EQ(ConnectAs(kOther, kOthers, path), EACCES);
  End(process, SIGTERM);
  const Outcome none =
      RunToEnd({"--dir", folder_ + "/a", "--listen", "unix:" + path, "--socket-group", "no such"});
  EXPECT_THAT(none.text, HasSubstr("there is no group no such"));
}

TEST_F(DaemonTest, SocketsAndPortsAreServedTogether) {
  const std::string socket = "unix:" + SocketFolder() + "/a.sock";
  const Process process = Start("a", "127.0.0.1:0", 0, {"--listen", socket});
  EXPECT_TRUE(ListJobsAt(process.address).ok());
  EXPECT_TRUE(ListJobsAt(socket).ok());
  EXPECT_THAT(ReadFile(folder_ + "/a.output"),
              HasSubstr("nothing tells callers apart on " + process.address));
}

TEST_F(DaemonTest, AcknowledgedJobsSurviveKill) {
  int acknowledged = 0;
  std::string listen = "127.0.0.1:0";
  for (int round = 0; round < 3; ++round) {
    const Process process = Start("a", listen);
    listen = process.address;  // the same port at once, as clients expect
    const auto stub = v1::JobService::NewStub(
        grpc::CreateChannel(process.address, grpc::InsecureChannelCredentials()));
    const auto deadline = [](grpc::ClientContext& context) {
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    };
    for (int i = 0; i < acknowledged; ++i) {
      grpc::ClientContext context;
      deadline(context);
      v1::GetJobRequest request;
      request.set_name("jobs/j" + std::to_string(i));
      v1::Job job;
      ASSERT_TRUE(stub->GetJob(&context, request, &job).ok()) << i << " of " << acknowledged;
    }
    for (int i = 0; i < 20; ++i) {
      grpc::ClientContext context;
      deadline(context);
      v1::Job job;
      const auto request = GoodRequest("j" + std::to_string(acknowledged));
      ASSERT_TRUE(stub->CreateJob(&context, request, &job).ok());
      ++acknowledged;
    }
    // One more is under way when it dies; it may be there or not.
    std::thread late([&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
      v1::Job job;
      static_cast<void>(stub->CreateJob(&context, GoodRequest("late"), &job).ok());
    });
    EXPECT_TRUE(WIFSIGNALED(End(process, SIGKILL)));
    late.join();
  }
}

}  // namespace
}  // namespace strata::controller
