// Every method of every service against bad calls; reflection and health. Methods are found through
// the server's reflection, so that a new one is covered without a word here.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "controller/service/testing/reflected_methods.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class AllMethods : public testing::Test {
 protected:
  AllMethods() {
    auto found = ReflectedMethods::Read(running_.channel());
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) found_ = *std::move(found);
  }
  const std::vector<const MethodDescriptor*>& methods() const { return found_->methods(); }
  CallOutcome Call(const MethodDescriptor& method, grpc::ClientContext* context,
                   const std::string& request, size_t most = SIZE_MAX) {
    return CallMethod(running_.channel(), ReflectedMethods::PathOf(method), context, {request},
                      most);
  }
  // What the method takes when the job `first` is there.
  std::string GoodBytes(const MethodDescriptor& method) {
    if (method.name() == "CreateJob") return GoodRequest("late").SerializeAsString();
    if (method.name() == "ApplyPolicy") {
      v1::ApplyPolicyRequest apply;
      apply.mutable_policy();
      return apply.SerializeAsString();
    }
    if (method.name() == "UpdateJob") {
      v1::UpdateJobRequest update;
      update.mutable_job()->set_name("jobs/first");
      update.mutable_update_mask()->add_paths("spec.labels");
      return update.SerializeAsString();
    }
    if (method.name() == "CancelJobs") {
      v1::CancelJobsRequest cancel;
      cancel.set_filter("name = first");
      return cancel.SerializeAsString();
    }
    if (method.name() == "ListJobEvents") {
      v1::ListJobEventsRequest list;
      list.set_parent("jobs/first");
      return list.SerializeAsString();
    }
    const auto request = found_->Request(method);
    const auto* name = request->GetDescriptor()->FindFieldByName("name");
    if (name != nullptr) request->GetReflection()->SetString(request.get(), name, "jobs/first");
    return request->SerializeAsString();
  }

  RunningController running_;
  std::unique_ptr<ReflectedMethods> found_;
};

TEST_F(AllMethods, AreFound) {
  for (const char* service : {"strata.v1.JobService", "strata.v1.ClusterService",
                              "strata.v1.AgentService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(found_->services(), Contains(service));
  }
  std::vector<std::string> names;
  for (const MethodDescriptor* method : methods()) names.push_back(method->name());
  EXPECT_THAT(names, testing::IsSupersetOf({"CreateJob", "WatchJobs", "StreamLogs", "GetNode",
                                            "GetCluster", "Session"}));
}

TEST_F(AllMethods, UnaryCallsWithoutADeadlineAreServedAndTooLongOnesRefused) {
  grpc::ClientContext plain;
  v1::Cluster cluster;
  EXPECT_TRUE(running_.cluster->GetCluster(&plain, {}, &cluster).ok());
  for (const MethodDescriptor* method : methods()) {
    if (!ReflectedMethods::IsUnary(*method)) continue;
    Deadline hour(3600);
    const CallOutcome late = Call(*method, &hour, "");
    EXPECT_EQ(late.status.error_code(), grpc::INVALID_ARGUMENT) << method->full_name();
    EXPECT_EQ(ReasonOf(late.status), "DEADLINE_TOO_LONG") << method->full_name();
  }
}

TEST(Reflection, IsAnsweredOnlyWhereItIsWanted) {
  for (const bool wanted : {false, true}) {
    Controller::Options options;
    options.reflection = wanted;
    RunningController running("", options);
    EXPECT_EQ(ReflectedMethods::Read(running.channel()).ok(), wanted);
  }
}

TEST_F(AllMethods, ExpiredDeadlinesAreTold) {
  for (const MethodDescriptor* method : methods()) {
    Deadline past(-1);
    const CallOutcome outcome = Call(*method, &past, GoodBytes(*method));
    EXPECT_EQ(outcome.status.error_code(), grpc::DEADLINE_EXCEEDED) << method->full_name();
  }
}

TEST_F(AllMethods, DeadlinesThatPassWhileTheCallWaitsAreToldAndNothingHappens) {
  Gate reached;
  Gate gate;
  running_.store().set_before_commit([&] {
    reached.Open();
    gate.Wait();
    return absl::OkStatus();
  });
  std::thread first([&] {
    v1::Job job;
    EXPECT_TRUE(running_.Create(GoodRequest("first"), &job).ok());
  });
  reached.Wait();  // now every call waits
  for (const MethodDescriptor* method : methods()) {
    if (!ReflectedMethods::IsUnary(*method)) continue;
    Deadline soon(0.1);
    const CallOutcome outcome = Call(*method, &soon, GoodBytes(*method));
    EXPECT_EQ(outcome.status.error_code(), grpc::DEADLINE_EXCEEDED) << method->full_name();
  }
  gate.Open();
  first.join();
  v1::Job job;
  EXPECT_EQ(running_.Get("jobs/late", &job).error_code(), grpc::NOT_FOUND);
  ASSERT_TRUE(running_.Get("jobs/first", &job).ok());
  EXPECT_FALSE(job.cancel_requested());
}

TEST_F(AllMethods, MalformedBytesAreRefused) {
  for (const MethodDescriptor* method : methods()) {
    for (const std::string& bad :
         {std::string("\xff\xff\xff"), std::string("\x0a\x7fshort"), std::string(1000, '\x0a')}) {
      Deadline context;
      const CallOutcome outcome = Call(*method, &context, bad);
      EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT) << method->full_name();
      EXPECT_THAT(outcome.status.error_message(), HasSubstr(method->input_type()->full_name()));
      EXPECT_EQ(ReasonOf(outcome.status), "INVALID_ARGUMENT") << method->full_name();
    }
  }
}

TEST_F(AllMethods, OversizedMessagesAreRefused) {
  const std::string large((4 << 20) + 1, 'x');
  for (const MethodDescriptor* method : methods()) {
    Deadline context;
    const CallOutcome outcome = Call(*method, &context, large);
    EXPECT_EQ(outcome.status.error_code(), grpc::RESOURCE_EXHAUSTED)
        << method->full_name() << outcome.status.error_message();
  }
}

// An answer, or the client's fault with a reason, and the field where a field is at fault.
void ExpectAnswerOrBlame(const MethodDescriptor& method, const CallOutcome& outcome) {
  if (outcome.status.ok() || !outcome.responses.empty()) return;
  EXPECT_THAT(outcome.status.error_code(),
              AnyOf(grpc::INVALID_ARGUMENT, grpc::NOT_FOUND, grpc::OUT_OF_RANGE,
                    grpc::FAILED_PRECONDITION, grpc::ABORTED))
      << method.full_name() << ": " << outcome.status.error_message();
  EXPECT_THAT(ReasonOf(outcome.status), Not(IsEmpty())) << method.full_name();
  if (outcome.status.error_code() == grpc::INVALID_ARGUMENT) {
    EXPECT_THAT(FieldsOf(outcome.status), Not(IsEmpty()))
        << method.full_name() << ": " << outcome.status.error_message();
  }
}

TEST_F(AllMethods, EmptyRequestsGetAnAnswerOrAReason) {
  for (const MethodDescriptor* method : methods()) {
    Deadline context;
    ExpectAnswerOrBlame(*method, Call(*method, &context, "", /*most=*/1));
  }
}

// Sets every field, to a depth, to a value that no client means.
void FillWithNonsense(int seed, int depth, Message& message) {
  const auto& reflection = *message.GetReflection();
  const std::vector<std::string> words = {"jobs/../../etc",      "nodes/", "\x01\x7f", "/", "-1",
                                          std::string(5000, 'x')};
  const std::string word = words[seed % words.size()];
  const int64_t number = seed % 2 == 0 ? -1 : std::numeric_limits<int64_t>::max();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->is_repeated()) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map() && depth > 0) {
        FillWithNonsense(seed + i, depth - 1, *reflection.AddMessage(&message, field));
      }
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(&message, field, word);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, field, static_cast<int32_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(&message, field, number);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetDouble(&message, field, std::numeric_limits<double>::quiet_NaN());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnumValue(&message, field, 77);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth > 0) {
          FillWithNonsense(seed + i, depth - 1, *reflection.MutableMessage(&message, field));
        }
        break;
      default:
        break;
    }
  }
}

TEST_F(AllMethods, NonsenseInTheFieldsIsTheClientsFault) {
  for (const MethodDescriptor* method : methods()) {
    for (int seed = 0; seed < 12; ++seed) {
      const auto request = found_->Request(*method);
      FillWithNonsense(seed, seed % 4, *request);
      Deadline context;
      SCOPED_TRACE(request->ShortDebugString().substr(0, 500));
      ExpectAnswerOrBlame(*method, Call(*method, &context, request->SerializeAsString(), 1));
    }
  }
  v1::Job job;  // it is well
  EXPECT_TRUE(running_.Create(GoodRequest("a"), &job).ok());
}

TEST_F(AllMethods, TextThatIsNoUtf8IsRefused) {
  for (const MethodDescriptor* method : methods()) {
    for (int i = 0; i < method->input_type()->field_count(); ++i) {
      const FieldDescriptor* field = method->input_type()->field(i);
      if (field->type() != FieldDescriptor::TYPE_STRING) continue;
      const char tag = static_cast<char>(field->number() << 3 | 2);
      Deadline context;
      const CallOutcome outcome = Call(*method, &context, std::string({tag, 2, '\xff', '\xfe'}), 1);
      EXPECT_EQ(outcome.status.error_code(), grpc::INVALID_ARGUMENT) << field->full_name();
    }
  }
}

TEST_F(AllMethods, UnknownMethodsAreUnimplemented) {
  Deadline context;
  const CallOutcome outcome =
      CallMethod(running_.channel(), "/strata.v1.JobService/None", &context, {""});
  EXPECT_EQ(outcome.status.error_code(), grpc::UNIMPLEMENTED);
}

TEST(Health, FollowsWhetherChangesCanBeMadeDurable) {
  RunningController running;
  const auto check = [&] {
    Deadline context;
    const CallOutcome outcome = CallMethod(running.channel(), "/grpc.health.v1.Health/Check",
                                           &context, {std::string("\x0a\x14strata.v1.JobService")});
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
