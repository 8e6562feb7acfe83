// A job whose folder lies on a file system that hangs: this program's own open() does, below
// folders of that name.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>

#include <atomic>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace {

std::atomic<int> opens{0};

strata::controller::Gate& TheGate() {
  static auto* const gate = new strata::controller::Gate;
  return *gate;
}

using Open = int (*)(const char*, int, ...);

int OpenOrHang(const char* name, const char* path, int flags, mode_t mode) {
  if (strstr(path, "/hangs/") != nullptr) {
    ++opens;
    TheGate().Wait();
  }
  return reinterpret_cast<Open>(dlsym(RTLD_NEXT, name))(path, flags, mode);
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return OpenOrHang("open", path, flags, mode);
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return OpenOrHang("open64", path, flags, mode);
}

namespace strata::controller {
namespace {

TEST(HangingFolder, StreamsAndLogLinesOfItsJobDelayNobodyElse) {
  const std::string folder = testing::TempDir() + "/HangingFolder";
  std::filesystem::remove_all(folder);
  Controller::Options options;
  options.files.deadline_seconds = 2;
  RunningController running(folder, options);
  SimulatedAgent agent(running, "n0");
  v1::CreateJobRequest request = GoodRequest("a");
  request.mutable_job()->set_directory(folder + "/hangs/a");
  v1::Job job;
  ASSERT_TRUE(running.Create(request, &job).ok());
  v1::ControllerMessage said;
  ASSERT_TRUE(agent.Await(v1::ControllerMessage::kPrepare, &said));

  // More than gRPC has threads for, of streams and of lines.
  v1::StreamProgressRequest asked;
  asked.set_name("jobs/a");
  std::vector<std::unique_ptr<Deadline>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobProgress>>> streams;
  for (int i = 0; i < 40; ++i) {
    contexts.push_back(std::make_unique<Deadline>());
    streams.push_back(running.jobs->StreamProgress(contexts.back().get(), asked));
    v1::AgentMessage line;
    line.mutable_log()->set_job("jobs/a");
    line.mutable_log()->mutable_line()->set_epoch(said.prepare().epoch().epoch());
    line.mutable_log()->mutable_line()->set_text("hello");
    ASSERT_TRUE(agent.Say(line));
  }
  while (opens == 0) std::this_thread::yield();

  for (int i = 0; i < 10; ++i) {
    Deadline soon(1);
    v1::Cluster cluster;
    ASSERT_TRUE(running.cluster->GetCluster(&soon, {}, &cluster).ok()) << i;
  }
  EXPECT_EQ(opens, 1) << "one thread is all that it takes";
  ASSERT_TRUE(running.Create(GoodRequest("b"), &job).ok());
  SimulatedAgent other(running, "n1");
  EXPECT_TRUE(other.Await(v1::ControllerMessage::kWelcome, &said));

  v1::JobProgress progress;
  for (auto& stream : streams) {
    while (stream->Read(&progress)) {
    }
    const grpc::Status ended = stream->Finish();
    EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE);
    EXPECT_NE(ended.error_message().find("does not answer"), std::string::npos)
        << ended.error_message();
  }
  TheGate().Open();
}

}  // namespace
}  // namespace strata::controller
