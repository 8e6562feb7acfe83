// Every method of every service against bad calls, found through descriptors; reflection, health.
#include <google/protobuf/descriptor.h>

#include <memory>
#include <string>
#include <vector>

#include "controller/service/rpc_test_support.h"
#include "controller/service/test_support.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using testing::HasSubstr;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}
std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

struct Outcome {
  grpc::Status status;
  std::vector<std::string> responses;
};

// One call of any method, as any client could make it: all of `requests`, then their end.
Outcome Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
             grpc::ClientContext* context, const std::vector<std::string>& requests) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(context, method, &queue);
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  Outcome outcome;
  call->StartCall(nullptr);
  bool sent = await();
  for (const std::string& request : requests) {
    if (!sent) break;
    call->Write(Bytes(request), nullptr);
    sent = await();
  }
  if (sent) {
    call->WritesDone(nullptr);
    await();
  }
  for (;;) {
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    if (!await()) break;
    outcome.responses.push_back(Text(response));
  }
  call->Finish(&outcome.status, nullptr);
  await();
  return outcome;
}

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* name :
       {"strata.v1.JobService", "strata.v1.ClusterService", "strata.v1.AgentService"}) {
    const auto* service = DescriptorPool::generated_pool()->FindServiceByName(name);
    EXPECT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}
std::string PathOf(const MethodDescriptor& method) {
  return "/" + method.service()->full_name() + "/" + method.name();
}
bool IsUnary(const MethodDescriptor& method) {
  return !method.client_streaming() && !method.server_streaming();
}

TEST(AllMethods, UnaryCallsWithoutADeadlineAreRefused) {
  RunningController running;
  int unary = 0;
  for (const MethodDescriptor* method : AllMethods()) {
    if (!IsUnary(*method)) continue;
    ++unary;
    grpc::ClientContext none;
    const Outcome outcome = Call(running.channel(), PathOf(*method), &none, {""});
    EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT) << method->full_name();
    EXPECT_EQ(ReasonOf(outcome.status), "DEADLINE_REQUIRED") << method->full_name();
    Deadline hour(3600);
    const Outcome late = Call(running.channel(), PathOf(*method), &hour, {""});
    EXPECT_EQ(late.status.error_code(), grpc::INVALID_ARGUMENT) << method->full_name();
    EXPECT_EQ(ReasonOf(late.status), "DEADLINE_TOO_LONG") << method->full_name();
  }
  EXPECT_EQ(unary, 8);
}

TEST(AllMethods, ExpiredDeadlinesAreTold) {
  RunningController running;
  for (const MethodDescriptor* method : AllMethods()) {
    Deadline past(-1);
    const Outcome outcome = Call(running.channel(), PathOf(*method), &past, {""});
    EXPECT_EQ(outcome.status.error_code(), grpc::DEADLINE_EXCEEDED) << method->full_name();
  }
}

TEST(AllMethods, DeadlinesThatPassWhileTheCallWaitsAreToldAndNothingHappens) {
  RunningController running;
  Gate reached;
  Gate gate;
  running.store().set_before_commit([&] {
    reached.Open();
    gate.Wait();
    return absl::OkStatus();
  });
  std::thread first([&] {
    v1::Job job;
    EXPECT_TRUE(running.Create(GoodRequest("first"), &job).ok());
  });
  reached.Wait();  // now every call waits
  for (const MethodDescriptor* method : AllMethods()) {
    if (!IsUnary(*method)) continue;
    std::string request;
    if (method->name() == "CreateJob") request = GoodRequest("late").SerializeAsString();
    if (method->name() == "CancelJob") request = std::string("\x0a\x0ajobs/first");
    if (method->name() == "GetJob" || method->name() == "ExplainJob") {
      request = std::string("\x0a\x0ajobs/first");
    }
    Deadline soon(0.1);
    const Outcome outcome = Call(running.channel(), PathOf(*method), &soon, {request});
    EXPECT_EQ(outcome.status.error_code(), grpc::DEADLINE_EXCEEDED) << method->full_name();
  }
  gate.Open();
  first.join();
  v1::Job job;
  EXPECT_EQ(running.Get("jobs/late", &job).error_code(), grpc::NOT_FOUND);
  ASSERT_TRUE(running.Get("jobs/first", &job).ok());
  EXPECT_FALSE(job.cancel_requested());
}

TEST(AllMethods, MalformedBytesAreRefused) {
  RunningController running;
  for (const MethodDescriptor* method : AllMethods()) {
    for (const std::string& bad :
         {std::string("\xff\xff\xff"), std::string("\x0a\x7fshort"), std::string(1000, '\x0a')}) {
      Deadline context;
      const Outcome outcome = Call(running.channel(), PathOf(*method), &context, {bad});
      EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT) << method->full_name();
      EXPECT_THAT(outcome.status.error_message(), HasSubstr(method->input_type()->full_name()));
      EXPECT_EQ(ReasonOf(outcome.status), "INVALID_ARGUMENT") << method->full_name();
    }
  }
}

TEST(AllMethods, OversizedMessagesAreRefused) {
  RunningController running;
  const std::string large((4 << 20) + 1, 'x');
  for (const MethodDescriptor* method : AllMethods()) {
    Deadline context;
    const Outcome outcome = Call(running.channel(), PathOf(*method), &context, {large});
    EXPECT_EQ(outcome.status.error_code(), grpc::RESOURCE_EXHAUSTED)
        << method->full_name() << outcome.status.error_message();
  }
}

TEST(AllMethods, EmptyRequestsGetAnAnswerOrAReason) {
  RunningController running;
  for (const MethodDescriptor* method : AllMethods()) {
    if (method->name() == "WatchJobs") continue;  // goes on for ever
    Deadline context;
    const Outcome outcome = Call(running.channel(), PathOf(*method), &context, {""});
    if (outcome.status.ok()) continue;
    EXPECT_EQ(outcome.status.error_code(),
              method->name() == "GetNode" ? grpc::NOT_FOUND : grpc::INVALID_ARGUMENT)
        << method->full_name() << outcome.status.error_message();
    EXPECT_FALSE(ReasonOf(outcome.status).empty()) << method->full_name();
  }
}

TEST(AllMethods, UnknownMethodsAreUnimplemented) {
  RunningController running;
  Deadline context;
  EXPECT_EQ(
      Call(running.channel(), "/strata.v1.JobService/None", &context, {""}).status.error_code(),
      grpc::UNIMPLEMENTED);
}

// The bytes that `grpcurl list` and `grpcurl describe` send: fields 7 and 4 of the request.
TEST(Reflection, ListsAndDescribesTheServices) {
  RunningController running;
  const std::string method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const std::string symbol = "strata.v1.JobService";
  Deadline context;
  const Outcome outcome =
      Call(running.channel(), method, &context,
           {std::string("\x3a\x00", 2),
            "\x22" + std::string(1, static_cast<char>(symbol.size())) + symbol});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  ASSERT_EQ(outcome.responses.size(), 2u);
  for (const char* service : {"strata.v1.JobService", "strata.v1.ClusterService",
                              "strata.v1.AgentService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(outcome.responses[0], HasSubstr(service));
  }
  EXPECT_THAT(outcome.responses[1], HasSubstr("StreamProgressRequest"));
}

TEST(Health, FollowsWhetherChangesCanBeMadeDurable) {
  RunningController running;
  const auto check = [&] {
    Deadline context;
    const Outcome outcome = Call(running.channel(), "/grpc.health.v1.Health/Check", &context,
                                 {std::string("\x0a\x14strata.v1.JobService")});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    return outcome.responses.empty() ? std::string() : outcome.responses[0];
  };
  const std::string serving("\x08\x01");
  const std::string not_serving("\x08\x02");
  EXPECT_EQ(check(), serving);
  std::atomic<bool> full{true};
  running.store().set_before_commit(
      [&] { return full ? absl::ResourceExhaustedError("full") : absl::OkStatus(); });
  v1::Job job;
  const grpc::Status refused = running.Create(GoodRequest("a"), &job);
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(check(), not_serving);
  EXPECT_EQ(running.Get("jobs/a", &job).error_code(), grpc::NOT_FOUND);
  full = false;
  while (check() != serving) {
  }
  EXPECT_TRUE(running.Create(GoodRequest("a"), &job).ok());
}

}  // namespace
}  // namespace strata::controller
