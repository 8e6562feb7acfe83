// A controller in this process, reached over a real loopback connection.
#ifndef STRATA_CONTROLLER_SERVICE_TESTING_RPC_TEST_SUPPORT_H_
#define STRATA_CONTROLLER_SERVICE_TESTING_RPC_TEST_SUPPORT_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "controller/service/controller.h"
#include "controller/store/in_memory_store.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/google/rpc/error_details.pb.h"
#include "proto/strata/v1/access.grpc.pb.h"
#include "proto/strata/v1/agent.grpc.pb.h"
#include "proto/strata/v1/cluster.grpc.pb.h"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "protocol/parts.h"
#include "protocol/versions.h"

#if defined(__SANITIZE_THREAD__)
// gRPC's headers put code into our programs whose ordering comes from the library, which is not
// instrumented. Only what gRPC's own functions access is left out: by the innermost frame, or in
// functions that never call ours. Every test program includes this file once.
extern "C" const char* __tsan_default_suppressions() {
  return "race_top:^grpc::\n"
         "race_top:^std::__atomic_base<grpc::\n"
         "race_top:^std::_Function_handler<void (bool), grpc::internal::Callback\n"
         "race:^grpc::Status::\n"
         "race:^grpc::internal::CallOpServerSendStatus::\n"
         "race:^grpc::internal::CallOpSendMessage::\n"
         "race:^grpc::internal::CallbackWithSuccessTag::Clear\n"
         "race:^grpc::internal::InterceptorBatchMethodsImpl::\n"
         "race:^grpc::internal::ServerCallbackCall::Unref\n";
}
#endif

namespace strata::controller {

inline constexpr double kPatience = 60;  // of a loaded machine under a sanitizer

// A client's context with a deadline.
class Deadline : public grpc::ClientContext {
 public:
  explicit Deadline(double seconds = kPatience) {
    set_deadline(std::chrono::system_clock::time_point(
        std::chrono::milliseconds(static_cast<int64_t>(1e3 * (common::WallSeconds() + seconds)))));
  }
};

class RunningController {
 public:
  // `directory`: empty: records in memory.
  explicit RunningController(const std::string& directory = "", Controller::Options options = {}) {
    options.directory = directory.empty() ? testing::TempDir() + "/controller" : directory;
    options.version = "test";
    options.reactor.tick_seconds = 0.02;
    std::unique_ptr<InMemoryStore> memory;
    if (directory.empty()) {
      memory = std::make_unique<InMemoryStore>();
      store_ = memory.get();
    }
    auto started = Controller::Start(options, &clock_, std::move(memory));
    EXPECT_TRUE(started.ok()) << started.status();
    controller_ = *std::move(started);
    thread_ = std::thread([this] { result_ = controller_->Run(stop_); });
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A client takes what the first window holds, not as much as gRPC finds the line can carry.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel_ = grpc::CreateCustomChannel(controller_->address(), grpc::InsecureChannelCredentials(),
                                         arguments);
    jobs = v1::JobService::NewStub(channel_);
    cluster = v1::ClusterService::NewStub(channel_);
    agents = v1::AgentService::NewStub(channel_);
  }
  ~RunningController() { EXPECT_TRUE(Stop().ok()); }
  absl::Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return result_;
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  Controller& controller() { return *controller_; }
  InMemoryStore& store() { return *store_; }  // only with records in memory

  grpc::Status Create(const v1::CreateJobRequest& request, v1::Job* job) {
    Deadline context;
    return jobs->CreateJob(&context, request, job);
  }
  grpc::Status Get(const std::string& name, v1::Job* job) {
    Deadline context;
    v1::GetJobRequest request;
    request.set_name(name);
    return jobs->GetJob(&context, request, job);
  }
  grpc::Status Cancel(const std::string& name) {
    Deadline context;
    v1::CancelJobRequest request;
    request.set_name(name);
    v1::Job job;
    return jobs->CancelJob(&context, request, &job);
  }

  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::ClusterService::Stub> cluster;
  std::unique_ptr<v1::AgentService::Stub> agents;

 private:
  const common::MonotonicClock clock_{};
  InMemoryStore* store_ = nullptr;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Controller> controller_;
  std::thread thread_;
  absl::Status result_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The reason of a failed call's ErrorInfo; empty without one.
inline std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details())) return "";
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&info)) return info.domain() == "strata" ? info.reason() : "";
  }
  return "";
}
inline std::vector<std::string> FieldsOf(const grpc::Status& status) {
  std::vector<std::string> fields;
  google::rpc::Status details;
  google::rpc::BadRequest request;
  if (!details.ParseFromString(status.error_details())) return fields;
  for (const auto& detail : details.details()) {
    if (!detail.UnpackTo(&request)) continue;
    for (const auto& violation : request.field_violations()) fields.push_back(violation.field());
  }
  return fields;
}

// An agent's half of a session.
class SimulatedAgent {
 public:
  SimulatedAgent(RunningController& controller, const std::string& node, uint64_t incarnation = 1,
                 const std::map<std::string, std::string>& locality = {}, int devices = 1,
                 int64_t host_memory_bytes = 0)
      : incarnation_(incarnation), stream_(controller.agents->Session(&context_)) {
    v1::AgentMessage message;
    v1::Register& hello = *message.mutable_register_();
    hello.set_node(node);
    hello.set_device("cpu");
    hello.set_devices(devices);
    hello.set_host_memory_bytes(host_memory_bytes);
    *hello.mutable_protocol() = protocol::OwnRange();
    hello.mutable_locality()->insert(locality.begin(), locality.end());
    Say(message);
  }
  ~SimulatedAgent() { context_.TryCancel(); }
  bool Say(v1::AgentMessage message) {
    message.set_incarnation(incarnation_);
    const auto pieces = protocol::Cut(std::move(message), ++said_);
    EXPECT_TRUE(pieces.ok());
    return std::all_of(pieces->begin(), pieces->end(),
                       [&](const v1::AgentMessage& piece) { return stream_->Write(piece); });
  }
  // The next message of that kind; nothing when the session ends first.
  bool Await(v1::ControllerMessage::MessageCase kind, v1::ControllerMessage* message) {
    v1::ControllerMessage read;
    while (stream_->Read(&read)) {
      auto whole = joiner_.Add(std::move(read));
      EXPECT_TRUE(whole.ok()) << whole.status();
      read.Clear();
      if (!whole.ok() || !whole->has_value()) continue;
      *message = **std::move(whole);
      if (message->message_case() == kind) return true;
    }
    return false;
  }
  grpc::Status Finish() { return stream_->Finish(); }
  grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>& stream() { return *stream_; }

 private:
  const uint64_t incarnation_;
  uint64_t said_ = 0;
  protocol::Joiner<v1::ControllerMessage> joiner_;
  Deadline context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>> stream_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TESTING_RPC_TEST_SUPPORT_H_
