// Requests that nobody may trust: specs, page tokens; and how refusals travel.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/units.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/auto_decision.h"
#include "controller/service/requests/errors.h"
#include "controller/service/requests/pages.h"
#include "controller/service/requests/spec_check.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::controller {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

v1::JobSpec GoodSpec() { return GoodRequest("good").job().spec(); }

std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  google::rpc::BadRequest request;
  const auto payload = status.GetPayload(kBadRequestUrl);
  if (!payload.has_value() || !request.ParseFromString(std::string(*payload))) return fields;
  for (const auto& violation : request.field_violations()) fields.push_back(violation.field());
  return fields;
}

TEST(CheckSpec, FillsInDefaults) {
  v1::JobSpec spec = GoodSpec();
  spec.clear_name();
  ASSERT_TRUE(CheckSpec("given", spec).ok()) << CheckSpec("given", spec);
  EXPECT_EQ(spec.name(), "given");
  EXPECT_EQ(spec.model().head_size(), 16);
  EXPECT_EQ(spec.train().sequence(), 256);
  EXPECT_EQ(spec.resources().ranks(), 1);
  v1::JobSpec again = spec;
  ASSERT_TRUE(CheckSpec("given", again).ok());
  EXPECT_EQ(again.SerializeAsString(), spec.SerializeAsString());
}

TEST(CheckSpec, NamesEveryProblemByItsPath) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_model()->set_heads(0);
  spec.mutable_train()->set_steps(-1);
  spec.mutable_train()->mutable_optimizer()->set_beta1(std::nan(""));
  spec.mutable_data()->mutable_train(0)->set_path("relative.txt");
  const absl::Status status = CheckSpec("x", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "INVALID_JOB");
  EXPECT_THAT(FieldsOf(status),
              testing::UnorderedElementsAre("model.heads", "train.steps", "train.optimizer.beta1",
                                            "data.train[0].path"));
}

TEST(CheckSpec, MissingSectionsAreNamed) {
  v1::JobSpec spec;
  EXPECT_THAT(FieldsOf(CheckSpec("x", spec)), ElementsAre("model", "data.train"));
}

TEST(CheckSpec, WhatFollowsFromFilesMustBeThere) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_train()->set_epochs(2);
  ASSERT_TRUE(CheckSpec("x", spec).ok());  // its steps stand beside them
  EXPECT_EQ(spec.train().epochs(), 2);
  spec.mutable_train()->clear_steps();
  spec.mutable_model()->clear_vocab();
  spec.mutable_data()->set_tokenizer("/tokenizer");
  spec.mutable_data()->mutable_train(0)->set_path("/data/chat.jsonl");
  EXPECT_THAT(FieldsOf(CheckSpec("x", spec)),
              testing::UnorderedElementsAre("train.epochs", "model.vocab", "data.train[0].path"));
}

TEST(CheckSpec, LayoutsThatCannotBeAreInfeasible) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_parallel()->set_data(3);
  const absl::Status status = CheckSpec("x", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "INFEASIBLE");
  EXPECT_THAT(FieldsOf(status), ElementsAre("parallel.data"));
}

v1::Job AutoJob() {
  v1::Job job;
  job.set_name("jobs/a");
  *job.mutable_spec() = GoodSpec();
  job.mutable_spec()->clear_parallel();
  job.mutable_spec()->mutable_parallel()->set_automatic(true);
  job.mutable_spec()->mutable_resources()->set_ranks(2);
  job.mutable_spec()->mutable_train()->clear_micro_batch();
  return job;
}

TEST(CheckSpec, AutosStayUntilTheyAreDecided) {
  v1::JobSpec spec = AutoJob().spec();
  const v1::JobSpec before = spec;
  ASSERT_TRUE(CheckSpec("x", spec).ok()) << CheckSpec("x", spec);
  EXPECT_EQ(spec.SerializeAsString(), before.SerializeAsString());
  spec.mutable_train()->set_steps(-1);
  EXPECT_THAT(FieldsOf(CheckSpec("x", spec)), ElementsAre("train.steps"));
}

TEST(DecideAutos, TheLayoutIsLegalCompleteAndSaidWhy) {
  const auto decided = DecideAutos(AutoJob(), {}, nullptr);
  ASSERT_TRUE(decided.ok()) << decided.status();
  v1::JobSpec spec = decided->spec;
  EXPECT_FALSE(spec.parallel().automatic());
  EXPECT_EQ(spec.parallel().data() * spec.parallel().tensor() * spec.parallel().context() *
                spec.parallel().pipeline(),
            2);
  EXPECT_GT(spec.train().micro_batch(), 0);
  ASSERT_TRUE(CheckSpec("a", spec).ok());
  EXPECT_EQ(spec.SerializeAsString(), decided->spec.SerializeAsString());
  EXPECT_THAT(decided->why, testing::StartsWith("auto was decided: "));
}

TEST(DecideAutos, WhatStepsTookIsHeeded) {
  const auto before = DecideAutos(AutoJob(), {}, nullptr);
  const auto family = planner::FamilyOf(before->spec, before->spec.model(), "cpu");
  planner::LearnedFamilies learned;
  for (const double ratio : {100.0, 1.0}) {
    v1::PlanFamily& one = *learned.Add();
    one.set_workload(family.workload);
    one.set_layout(learned.size() == 1 ? family.layout : "data 64");
    one.set_ratio(ratio);
    one.set_steps(16);
  }
  const auto after = DecideAutos(AutoJob(), {learned}, nullptr);
  EXPECT_NE(planner::FamilyOf(after->spec, after->spec.model(), "cpu").layout, family.layout);
  EXPECT_THAT(after->why, testing::HasSubstr("steps of other layouts of this workload took"));
}

// What nodes of a cluster with these bytes tell.
planner::AskRoom Nodes(const std::vector<int64_t>& bytes) {
  return [bytes](const std::string& device, int64_t ranks) {
    planner::RankRoom room;
    for (size_t i = 0; i < bytes.size(); ++i) {
      v1::Node node;
      node.set_name(absl::StrCat("nodes/n", i));
      node.set_device("cpu");
      node.set_devices(1);
      node.set_host_memory_bytes(bytes[i]);
      planner::TakeLeast(node, device, ranks, room);
    }
    return room;
  };
}

TEST(DecideAutos, WhatTheLeastNodeDoesNotHoldIsNotChosen) {
  constexpr int64_t kMuch = 1 << 30;
  const auto with = [](int64_t bytes) {
    return DecideAutos(AutoJob(), {.room = Nodes({kMuch, bytes})}, nullptr);
  };
  const auto text = [](const auto& decided) { return decided->spec.SerializeAsString(); };
  const auto free = DecideAutos(AutoJob(), {}, nullptr);
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_EQ(text(with(kMuch)), text(free));
  EXPECT_EQ(text(with(0)), text(free));  // a node of before tells nothing
  int64_t none = 0, least = kMuch;
  while (least - none > 1) {
    const int64_t middle = (none + least) / 2;
    (with(middle).ok() ? least : none) = middle;
  }
  const auto tight = with(least);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_NE(text(tight), text(free));
  EXPECT_THAT(
      std::string(with(none).status().message()),
      HasSubstr(absl::StrCat(common::FormatBytes(static_cast<double>(least)), " of the host")));
}

TEST(DecideAutos, WhereNothingFitsWhatNeedsLeastAndWhatThereIsAreTold) {
  const absl::Status status =
      DecideAutos(AutoJob(), {.room = Nodes({4096, 1 << 30})}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "INFEASIBLE");
  EXPECT_THAT(FieldsOf(status), ElementsAre("parallel"));
  EXPECT_THAT(std::string(status.message()),
              testing::ContainsRegex("none fits the nodes; with the least .*recompute full.* needs "
                                     ".* of the host's memory, and n0 has 4.00 KiB for each rank"));
}

TEST(DecideAutos, WhatCannotBeDecidedIsRefusedWithWhatToDo) {
  v1::Job job = AutoJob();
  job.mutable_spec()->mutable_resources()->set_ranks(13);
  absl::Status status = DecideAutos(job, {}, nullptr).status();
  EXPECT_EQ(ReasonOf(status), "INFEASIBLE");
  EXPECT_THAT(FieldsOf(status), ElementsAre("parallel"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no layout is legal"));
  job = AutoJob();
  job.mutable_spec()->mutable_train()->set_global_batch(1 << 20);
  EXPECT_EQ(ReasonOf(DecideAutos(job, {}, nullptr).status()), "DECISION_TOO_LARGE");
  EXPECT_EQ(ReasonOf(DecideAutos(AutoJob(), {}, [] { return true; }).status()),
            "DECISION_TOO_LARGE");
  job = AutoJob();
  job.mutable_spec()->mutable_model()->clear_layers();
  EXPECT_EQ(ReasonOf(DecideAutos(job, {}, nullptr).status()), "INVALID_JOB");
}

TEST(AutoDecider, OneIsDecidedAtATimeAndNotForLong) {
  common::ManualClock clock;
  AutoDecider decider(&clock);
  std::vector<absl::Status> inner;
  const auto decided = decider.Decide(AutoJob(), {}, [&] {
    if (inner.empty()) {
      std::thread([&] {
        inner.push_back(decider.Decide(AutoJob(), {}, [] { return false; }).status());
      }).join();
    }
    clock.Advance(15);
    return false;
  });
  EXPECT_EQ(ReasonOf(decided.status()), "DECISION_TOO_LARGE");
  EXPECT_EQ(ReasonOf(inner.at(0)), "DECISION_BUSY");
  EXPECT_TRUE(decider.Decide(AutoJob(), {}, [] { return false; }).ok());
}

TEST(CheckSpec, ValuesOfOtherVersionsAreRefused) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_model()->set_family(static_cast<v1::ModelSpec::Family>(77));
  spec.mutable_train()
      ->GetReflection()
      ->MutableUnknownFields(spec.mutable_train())
      ->AddVarint(99, 1);
  spec.mutable_parallel()->set_shard(v1::ParallelSpec::SHARD_UNSPECIFIED);
  EXPECT_THAT(FieldsOf(CheckSpec("x", spec)),
              testing::UnorderedElementsAre("model.family", "train", "parallel.shard"));
}

TEST(CheckSpec, TooLargeOnesAreRefused) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_data()->mutable_train(0)->set_path("/" + std::string(1 << 20, 'x'));
  EXPECT_EQ(CheckSpec("x", spec).code(), absl::StatusCode::kInvalidArgument);
  spec = GoodSpec();
  for (int i = 0; i < 100'000; ++i) spec.mutable_data()->add_train()->set_weight(1);
  EXPECT_EQ(CheckSpec("x", spec).code(), absl::StatusCode::kInvalidArgument);
}

// Sets a random field somewhere to a value that programs stumble over.
void Disturb(std::mt19937_64& random, google::protobuf::Message& section) {
  const auto& type = *section.GetDescriptor();
  const auto& reflection = *section.GetReflection();
  const auto& field = *type.field(static_cast<int>(random() % type.field_count()));
  static constexpr int64_t kWhole[] = {0, -1, 1, 3, INT64_MIN, INT64_MAX, int64_t{1} << 40, 1000};
  const double numbers[] = {0,    -1,           1e308,
                            -0.0, std::nan(""), std::numeric_limits<double>::infinity()};
  static const std::string kTexts[] = {
      "", "..", std::string("\0", 1), "\xc3\xa9: [", "null", "\n- a: &x *x", "/a b", "auto"};
  using google::protobuf::FieldDescriptor;
  if (field.is_repeated()) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.AddInt64(&section, &field, kWhole[random() % std::size(kWhole)]);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection.AddDouble(&section, &field, numbers[random() % std::size(numbers)]);
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.AddString(&section, &field, kTexts[random() % std::size(kTexts)]);
      default:
        return Disturb(random, *reflection.AddMessage(&section, &field));
    }
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&section, &field, kWhole[random() % std::size(kWhole)]);
    case FieldDescriptor::CPPTYPE_INT32:  // of durations
      return reflection.SetInt32(&section, &field, static_cast<int32_t>(random()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&section, &field, numbers[random() % std::size(numbers)]);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&section, &field, random() % 2 == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&section, &field, static_cast<int>(random() % 9) - 2);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&section, &field, kTexts[random() % std::size(kTexts)]);
    default:
      return Disturb(random, *reflection.MutableMessage(&section, &field));
  }
}

TEST(CheckSpec, NoSpecCrashesItAndWhatPassesPassesAgain) {
  std::mt19937_64 random(1);
  int passed = 0;
  for (int round = 0; round < 3000; ++round) {
    v1::JobSpec spec = random() % 8 == 0 ? v1::JobSpec() : GoodSpec();
    for (uint64_t i = 0; i <= random() % 4; ++i) Disturb(random, spec);
    const absl::Status status = CheckSpec("x", spec);
    if (!status.ok()) {
      EXPECT_THAT(FieldsOf(status), testing::Not(testing::IsEmpty())) << spec.DebugString();
      continue;
    }
    ++passed;
    v1::JobSpec again = spec;
    EXPECT_TRUE(CheckSpec("x", again).ok()) << spec.DebugString();
  }
  EXPECT_GT(passed, 30);
}

TEST(CheckPolicy, MeetsTheFilesChecks) {
  v1::Policy policy;
  EXPECT_TRUE(CheckPolicy(policy).ok());
  policy.add_queues()->set_name("urgent");
  policy.mutable_queues(0)->set_priority(5);
  (*policy.add_projects()->mutable_quota())["h100"] = 8;
  policy.mutable_projects(0)->set_name("nlp");
  EXPECT_TRUE(CheckPolicy(policy).ok()) << CheckPolicy(policy);
  (*policy.mutable_projects(0)->mutable_quota())[""] = 8;
  policy.mutable_queues(0)->set_max_devices(-1);
  policy.add_queues()->set_name("urgent");
  policy.mutable_scheduling()->set_unknown_run_seconds(std::nan(""));
  const absl::Status status = CheckPolicy(policy);
  EXPECT_EQ(ReasonOf(status), "INVALID_POLICY");
  EXPECT_THAT(FieldsOf(status), ElementsAre("projects[0].quota.\"\"", "queues[0].max_devices",
                                            "queues[1].name", "scheduling.unknown_run_seconds"));
}

TEST(Pages, TokensComeBackAndOthersAreRefused) {
  const std::string token = PageToken("jobs", "jobs/a");
  const auto page = ReadPage("jobs", 0, token);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->after, "jobs/a");
  EXPECT_EQ(page->size, kDefaultPage);
  EXPECT_EQ(ReadPage("jobs", 5000, "")->size, kLargestPage);
  EXPECT_THAT(FieldsOf(ReadPage("jobs", -1, "").status()), ElementsAre("page_size"));
  std::string changed = token;
  changed[3] = changed[3] == 'A' ? 'B' : 'A';
  for (const std::string& bad : {std::string("x"), std::string("jobs/a"), changed, token + "AAAA",
                                 PageToken("nodes", "jobs/a"), std::string(10000, 'A')}) {
    EXPECT_THAT(FieldsOf(ReadPage("jobs", 1, bad).status()), ElementsAre("page_token")) << bad;
  }
}

TEST(Errors, DetailsTravelAndFitIntoATrailer) {
  std::vector<FieldViolation> violations;
  for (int i = 0; i < 50; ++i) {
    violations.push_back({absl::StrCat("data.train[", i, "].path"), std::string(300, 'x')});
  }
  const grpc::Status sent = ToGrpc(
      WithRetry(RefuseFields(absl::StatusCode::kInvalidArgument, "INVALID_JOB", violations), 1.5));
  EXPECT_EQ(sent.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(sent.error_details().size() * 4 / 3 + sent.error_message().size() * 3, 8000u);
  google::rpc::Status status;
  ASSERT_TRUE(status.ParseFromString(sent.error_details()));
  google::rpc::BadRequest request;
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  for (const auto& detail : status.details()) {
    detail.UnpackTo(&request) || detail.UnpackTo(&info) || detail.UnpackTo(&retry);
  }
  EXPECT_EQ(info.reason(), "INVALID_JOB");
  EXPECT_EQ(info.domain(), "strata");
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  ASSERT_GE(request.field_violations_size(), 2);
  EXPECT_THAT(request.field_violations(request.field_violations_size() - 1).description(),
              HasSubstr("more problems"));
}

TEST(Errors, EveryFailureHasAReason) {
  google::rpc::Status status;
  ASSERT_TRUE(status.ParseFromString(ToGrpc(absl::UnavailableError("x")).error_details()));
  google::rpc::ErrorInfo info;
  ASSERT_EQ(status.details_size(), 1);
  ASSERT_TRUE(status.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "UNAVAILABLE");
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace strata::controller
