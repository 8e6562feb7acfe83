#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/commands/fake_cluster.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

class ClusterCommandsTest : public FakeClusterTest {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "cluster-commands";
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/text.txt") << std::string(20000, 'a');
    std::ofstream(folder_ + "/job.yaml") << R"(name: faulty
model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 256}
data:
  train: [{path: text.txt}]
train: {steps: 50, sequence: 64, global_batch: 8}
)";
  }

  static v1::Job JobIn(v1::Job::State state, int64_t step = 0) {
    v1::Job job;
    job.set_name("jobs/faulty");
    job.mutable_spec()->mutable_train()->set_steps(50);
    job.set_state(state);
    job.set_epoch(1);
    job.set_step(step);
    job.set_target_step(50);
    job.set_directory("/data/faulty");
    job.mutable_checkpoint()->set_step(40);
    return job;
  }

  static v1::JobProgress Step(int64_t step, double loss) {
    v1::JobProgress progress;
    progress.mutable_step()->set_step(step);
    progress.mutable_step()->set_loss(loss);
    progress.mutable_step()->set_tokens(512);
    progress.mutable_step()->set_seconds(0.1);
    return progress;
  }

  static v1::JobProgress Ending(const v1::Job& job) {
    v1::JobProgress progress;
    *progress.mutable_job() = job;
    return progress;
  }

  std::string folder_;
};

TEST_F(ClusterCommandsTest, JobJsonHasThePlainNameAndTheContractsFields) {
  server_.Put(JobIn(v1::Job::RUNNING, 42));
  const Outcome got = Run({"get", "job", "faulty", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto json = nlohmann::json::parse(got.out);
  EXPECT_EQ(json["name"], "faulty");
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["epoch"], 1);
  EXPECT_EQ(json["step"], 42);
  EXPECT_EQ(json["checkpoint_step"], 40);
  EXPECT_EQ(json["directory"], "/data/faulty");
  EXPECT_EQ(json["reason"], "");
  EXPECT_EQ(json["spec"]["train"]["steps"], 50);
}

TEST_F(ClusterCommandsTest, ListsAreJsonArraysAlsoWhenEmpty) {
  EXPECT_EQ(Run({"get", "jobs", "-o", "json"}).out, "[]\n");
  v1::Node node;
  node.set_name("nodes/n0");
  node.set_state(v1::Node::READY);
  server_.Put(node);
  const auto nodes = nlohmann::json::parse(Run({"get", "nodes", "-o", "json"}).out);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0]["name"], "n0");
  EXPECT_EQ(nodes[0]["state"], "READY");
  EXPECT_TRUE(nodes[0]["host_memory_bytes"].is_null());  // an agent of before
  EXPECT_THAT(Run({"describe", "node", "n0"}).out, testing::Not(HasSubstr("Memory")));
  node.set_host_memory_bytes(int64_t{512} << 30);
  node.set_device_memory_bytes(int64_t{80} << 30);
  server_.Put(node);
  const auto told = nlohmann::json::parse(Run({"get", "node", "n0", "-o", "json"}).out);
  EXPECT_EQ(told["host_memory_bytes"], int64_t{512} << 30);
  EXPECT_EQ(told["device_memory_bytes"], int64_t{80} << 30);
  EXPECT_THAT(Run({"describe", "node", "n0"}).out,
              HasSubstr("80.00 GiB of a device, 512.00 GiB of the host for its ranks"));
  EXPECT_EQ(Run({"get", "nodes", "-o", "name"}).out, "n0\n");
  EXPECT_THAT(Run({"get", "node", "n0"}).out, HasSubstr("READY"));
  EXPECT_THAT(Run({"get", "node", "n0", "-o", "yaml"}).out, HasSubstr("name: n0\nstate: READY\n"));
}

TEST_F(ClusterCommandsTest, PlanFamiliesAreToldWithTheirRatioTermsAndSteps) {
  EXPECT_EQ(Run({"get", "plan-families", "-o", "json"}).out, "[]\n");
  EXPECT_THAT(Run({"get", "plan-families"}).err, HasSubstr("no steps were compared yet"));
  for (const char* layout : {"data 2", "tensor 2, data 1"}) {
    v1::PlanFamily& family = *server_.plan_families.add_families();
    family.set_workload("llama 2 x 64, full f32, cpu");
    family.set_layout(layout);
    family.set_ratio(1.25);
    family.set_steps(48);
    family.mutable_update_time()->set_seconds(1);
    v1::PlanFamily::Term& term = *family.add_terms();
    term.set_name("compute");
    term.set_measured_seconds(0.5);
    term.set_predicted_seconds(0.4);
  }
  const auto json = nlohmann::json::parse(Run({"get", "plan-families", "-o", "json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0], nlohmann::json::parse(R"({
      "workload": "llama 2 x 64, full f32, cpu", "layout": "data 2", "ratio": 1.25, "steps": 48,
      "terms": {"compute": {"measured_seconds": 0.5, "predicted_seconds": 0.4}},
      "update_time": "1970-01-01T00:00:01Z"})"));
  const std::string table = Run({"get", "plan-families"}).out;
  EXPECT_THAT(table, HasSubstr("llama 2 x 64, full f32, cpu\nMEASURED/PREDICTED  STEPS  AGE"));
  EXPECT_THAT(table, HasSubstr("1.25                48"));
  EXPECT_EQ(table.find("llama"), table.rfind("llama")) << "a workload is told once";
  EXPECT_EQ(Run({"get", "plan-families", "-o", "name"}).out,
            "llama 2 x 64, full f32, cpu; data 2\nllama 2 x 64, full f32, cpu; tensor 2, data 1\n");
  EXPECT_EQ(Run({"get", "plan-families", "data"}).code, 2);
}

TEST_F(ClusterCommandsTest, UnknownNamesAreNotFoundAndRepeated) {
  server_.logs = [](const auto&, const auto&) { return FakeAnswer(); };
  const std::vector<std::vector<std::string>> commands = {{"get", "job", "nobody"},
                                                          {"describe", "job", "nobody"},
                                                          {"cancel", "nobody"},
                                                          {"logs", "nobody"},
                                                          {"watch", "nobody"},
                                                          {"explain", "nobody"},
                                                          {"wait", "nobody", "--for=step=1"},
                                                          {"get", "node", "nobody"}};
  for (const auto& command : commands) {
    const Outcome got = Run(command);
    EXPECT_EQ(got.code, 5) << command[0];
    EXPECT_THAT(got.err, HasSubstr("nobody")) << command[0];
  }
}

TEST_F(ClusterCommandsTest, SubmitSendsAbsolutePathsAndARequestId) {
  v1::CreateJobRequest seen;
  server_.create = [&](const v1::CreateJobRequest& request, v1::Job* job) -> FakeAnswer {
    seen = request;
    *job = request.job();
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--set", "train.steps=7"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(seen.job().name(), "jobs/faulty");
  EXPECT_EQ(seen.job().spec().data().train(0).path(), folder_ + "/text.txt");
  EXPECT_EQ(seen.job().spec().train().steps(), 7);
  EXPECT_EQ(seen.request_id().size(), 32u);
  EXPECT_THAT(got.err, HasSubstr("strata watch faulty"));
}

TEST_F(ClusterCommandsTest, SubmitReportsTheServersViolationsInTheFile) {
  server_.create = [](const auto&, auto*) -> FakeAnswer {
    google::rpc::BadRequest request;
    request.add_field_violations()->set_field("train.steps");
    request.mutable_field_violations(0)->set_description("too many");
    google::rpc::Status status;
    status.add_details()->PackFrom(request);
    return {3, "invalid", status.SerializeAsString()};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml"});
  EXPECT_EQ(got.code, 2);
  EXPECT_EQ(got.err, folder_ + "/job.yaml:5:16: train.steps: too many\n");
}

TEST_F(ClusterCommandsTest, ValidateOnlyAsksTheServerAndCreatesNothing) {
  EXPECT_EQ(Run({"submit", folder_ + "/job.yaml", "--validate-only"}).code, 0);
  EXPECT_EQ(server_.calls("CreateJob"), 1);
  EXPECT_EQ(Run({"get", "jobs", "-o", "name"}).out, "");
}

TEST_F(ClusterCommandsTest, AttachShowsStepsAndReturnsTheOutcome) {
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    send(Ending(JobIn(v1::Job::RUNNING)));
    send(Step(1, 5.5));
    send(Step(50, 1.25));
    send(Ending(JobIn(v1::Job::SUCCEEDED, 50)));
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--attach", "-o", "json"});
  EXPECT_EQ(got.code, 0);
  EXPECT_THAT(got.err, HasSubstr("step 1/50  loss 5.5000"));
  EXPECT_THAT(got.err, HasSubstr("loss by step"));
  EXPECT_THAT(got.err, HasSubstr("job faulty SUCCEEDED"));
  EXPECT_EQ(nlohmann::json::parse(got.out)["state"], "SUCCEEDED");
}

TEST_F(ClusterCommandsTest, AttachToAJobThatFailsReturnsOneWithItsReason) {
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    v1::Job job = JobIn(v1::Job::FAILED, 3);
    job.set_reason("rank 1 on n1 was killed 4 times without progress");
    send(Ending(job));
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--attach"});
  EXPECT_EQ(got.code, 1);
  EXPECT_THAT(got.err, HasSubstr("rank 1 on n1"));
  EXPECT_THAT(got.err, HasSubstr("strata logs faulty"));
}

TEST_F(ClusterCommandsTest, AttachGoesOnFromTheLastStepAfterTheControllersRestart) {
  std::vector<int64_t> asked;
  server_.progress = [&](const v1::StreamProgressRequest& request, const auto& send) -> FakeAnswer {
    asked.push_back(request.after_step());
    if (asked.size() == 1) {
      send(Step(1, 5.5));
      send(Step(2, 5.0));
      return {14, "going away"};
    }
    send(Step(3, 4.5));
    send(Ending(JobIn(v1::Job::SUCCEEDED, 50)));
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--attach"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(asked, (std::vector<int64_t>{0, 2}));
  EXPECT_THAT(got.err, HasSubstr("the controller is back"));
}

TEST_F(ClusterCommandsTest, TheLossCurveForgetsStepsThatCameAgain) {
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    for (const int64_t step : {1, 2, 3, 2, 3, 4}) send(Step(step, 5.0 - step));
    send(Ending(JobIn(v1::Job::SUCCEEDED, 4)));
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--attach"});
  EXPECT_EQ(got.code, 0);
  EXPECT_THAT(got.err, HasSubstr("loss 1.0000"));
}

TEST_F(ClusterCommandsTest, WaitEndsAtOnceOnWhatIsTrueOrCannotBe) {
  server_.Put(JobIn(v1::Job::FAILED, 10));
  EXPECT_EQ(Run({"wait", "faulty", "--for=state=FAILED"}).code, 0);
  EXPECT_EQ(Run({"wait", "faulty", "--for=step=10"}).code, 0);
  const Outcome never = Run({"wait", "faulty", "--for=state=SUCCEEDED"});
  EXPECT_EQ(never.code, 1);
  EXPECT_THAT(never.err, HasSubstr("cannot come true"));
  server_.Put(JobIn(v1::Job::RUNNING, 10));
  const Outcome beyond = Run({"wait", "faulty", "--for=step=51"});
  EXPECT_EQ(beyond.code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("its last step is 50"));
  EXPECT_EQ(server_.calls("StreamProgress"), 0);
}

TEST_F(ClusterCommandsTest, WaitSeesAStepAndAnEndComing) {
  server_.Put(JobIn(v1::Job::RUNNING, 10));
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    for (int64_t step = 11; step <= 50; ++step) send(Step(step, 1));
    send(Ending(JobIn(v1::Job::SUCCEEDED, 50)));
    return {};
  };
  EXPECT_EQ(Run({"wait", "faulty", "--for=step=20"}).code, 0);
  EXPECT_EQ(Run({"wait", "faulty", "--for=state=SUCCEEDED"}).code, 0);
  EXPECT_EQ(Run({"wait", "faulty", "--for=state=CANCELLED"}).code, 1);
}

TEST_F(ClusterCommandsTest, WaitSeesAnEndThatNoStreamTold) {
  server_.Put(JobIn(v1::Job::RUNNING, 10));
  server_.progress = [&](const auto&, const auto&) -> FakeAnswer {
    server_.Put(JobIn(v1::Job::SUCCEEDED, 50));
    return {};
  };
  EXPECT_EQ(Run({"wait", "faulty", "--for=state=SUCCEEDED"}).code, 0);
}

TEST_F(ClusterCommandsTest, WaitTimesOut) {
  server_.Put(JobIn(v1::Job::RUNNING, 10));
  server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
    while (send(Step(10, 1))) {
    }
    return {};
  };
  const Outcome got = Run({"wait", "faulty", "--for=state=SUCCEEDED", "--timeout", "0.3"});
  EXPECT_EQ(got.code, 6);
  EXPECT_THAT(got.err, HasSubstr("has not come true"));
}

TEST_F(ClusterCommandsTest, LogLinesComeOnceThoughTheControllerRestarts) {
  server_.Put(JobIn(v1::Job::RUNNING));
  int streams = 0;
  server_.logs = [&](const v1::StreamLogsRequest& request, const auto& send) -> FakeAnswer {
    EXPECT_EQ(request.ranks_size(), 1);
    EXPECT_EQ(request.ranks(0), 1);
    EXPECT_TRUE(request.follow());
    int number = 0;
    for (const char* text : {"one", "two", "three"}) {
      v1::LogLine line;
      line.set_rank(1);
      line.set_text(text);
      line.set_cursor(absl::StrCat(++number));
      if (line.cursor() <= request.cursor()) continue;
      if (streams == 0 && std::string(text) == "three") break;
      send(line);
    }
    return streams++ == 0 ? FakeAnswer{14, "going away"} : FakeAnswer();
  };
  const Outcome got = Run({"logs", "faulty", "--rank", "1", "-f"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "[rank 1] one\n[rank 1] two\n[rank 1] three\n");
}

TEST_F(ClusterCommandsTest, LogsOfARankThatIsNoneAreAMistake) {
  v1::Job job = JobIn(v1::Job::SUCCEEDED, 50);
  job.mutable_spec()->mutable_resources()->set_ranks(2);
  server_.Put(job);
  server_.logs = [](const auto&, const auto&) { return FakeAnswer(); };
  const Outcome none = Run({"logs", "faulty", "--rank", "2"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("has 2 ranks, 0 to 1"));
  const Outcome silent = Run({"logs", "faulty", "--rank", "1"});
  EXPECT_EQ(silent.code, 0);
  EXPECT_THAT(silent.err, HasSubstr("SUCCEEDED; its rank 1 has written no lines"));
}

TEST_F(ClusterCommandsTest, ResultsThatCannotBeWrittenAreAFailure) {
  server_.Put(JobIn(v1::Job::RUNNING));
  for (const std::vector<std::string>& command : {std::vector<std::string>{"get", "jobs"},
                                                  {"watch", "faulty", "-o", "json"},
                                                  {"logs", "faulty"}}) {
    server_.progress = [](const auto&, const auto& send) -> FakeAnswer {
      while (send(Step(1, 5.5))) {
      }
      return {};
    };
    server_.logs = [](const v1::StreamLogsRequest&, const auto& send) -> FakeAnswer {
      v1::LogLine line;
      line.set_text("a line");
      while (send(line)) {
      }
      return {};
    };
    const Outcome got = Run(command, "/dev/full");
    EXPECT_EQ(got.code, 1) << command[0];
    EXPECT_THAT(got.err, HasSubstr("No space left on device")) << command[0];
  }
}

TEST_F(ClusterCommandsTest, ATakenNameIsToldWithAWayOut) {
  server_.create = [](const auto&, auto*) -> FakeAnswer {
    google::rpc::ErrorInfo info;
    info.set_reason("NAME_TAKEN");
    google::rpc::Status status;
    status.add_details()->PackFrom(info);
    return {6, "there is a job faulty already", status.SerializeAsString()};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml"});
  EXPECT_EQ(got.code, 1);
  EXPECT_THAT(got.err, HasSubstr("job.yaml:1:7: name: there is a job faulty already"));
  EXPECT_THAT(got.err, HasSubstr("--set name=faulty-2"));
}

TEST_F(ClusterCommandsTest, ASubmissionWithoutAnAnswerSaysHowToRepeatIt) {
  server_.create = [](const auto&, auto*) -> FakeAnswer { return {4, "late", ""}; };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--request-id", "mine"});
  EXPECT_EQ(got.code, 6);
  EXPECT_THAT(got.err, HasSubstr("with --request-id mine it is submitted once at most"));
}

TEST_F(ClusterCommandsTest, AValidJobIsPrintedCompletedAsJsonToo) {
  server_.create = [](const auto& request, v1::Job* job) -> FakeAnswer {
    *job = request.job();
    return {};
  };
  const Outcome got = Run({"submit", folder_ + "/job.yaml", "--validate-only", "-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  const auto json = nlohmann::json::parse(got.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json.value("name", ""), "faulty") << got.out;
}

TEST_F(ClusterCommandsTest, AJobThatIsNotThereIsNamedAsItWasTyped) {
  const Outcome got = Run({"get", "job", "other/faulty"});
  EXPECT_EQ(got.code, 5);
  EXPECT_THAT(got.err, HasSubstr("no job other/faulty"));
}

TEST_F(ClusterCommandsTest, DownSaysInJsonWhatItDid) {
  const std::string folder = testing::TempDir() + "down_json";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/cluster.json") << "{";
  const Outcome got = Run({"down", "--dir", folder, "-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  const auto json = nlohmann::json::parse(got.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json.value("directory", ""), folder) << got.out;
  EXPECT_FALSE(json.value("was_running", true));
}

TEST_F(ClusterCommandsTest, AnEndedJobIsToldWithItsOwnDuration) {
  v1::Job job = JobIn(v1::Job::SUCCEEDED, 50);
  job.mutable_create_time()->set_seconds(1000);
  job.mutable_end_time()->set_seconds(1065);
  server_.Put(job);
  server_.progress = [&](const auto&, const auto& send) -> FakeAnswer {
    send(Ending(job));
    return {};
  };
  EXPECT_THAT(Run({"watch", "faulty"}).err, HasSubstr("SUCCEEDED in 1 min 5 s"));
}

TEST_F(ClusterCommandsTest, ExplainDescribeAndCancelSayWhatTheServerSays) {
  v1::Job job = JobIn(v1::Job::RECOVERING, 42);
  job.set_reason("rank 1 on n1 was killed");
  auto* event = job.add_events();
  event->set_reason("rank 1 on n1 was killed by signal 9");
  event->set_lost_steps(2);
  server_.Put(job);
  server_.progress = [](const v1::StreamProgressRequest& request, const auto& send) -> FakeAnswer {
    EXPECT_EQ(request.after_step(), 41);
    v1::JobProgress progress = Step(42, 2.5);
    v1::PurposeSeconds& reduce = *progress.mutable_step()->add_purposes();
    reduce.set_purpose("reduce");
    reduce.set_exposed_seconds(0.0125);
    reduce.set_background_seconds(0.05);
    send(progress);
    return {};
  };
  EXPECT_EQ(Run({"explain", "faulty"}).out, "it waits for 2 devices\n1 is free\n");
  const nlohmann::json why = nlohmann::json::parse(Run({"explain", "faulty", "-o", "json"}).out);
  EXPECT_EQ(why["lines"][1], "1 is free");
  EXPECT_EQ(why["state"], "QUEUED");
  EXPECT_EQ(why["queue_position"], 3);
  EXPECT_EQ(why["devices_wanted"], 2);
  EXPECT_EQ(why["blockers"][0]["code"], "DEVICES");
  EXPECT_EQ(why["blockers"][0]["subject"], "jobs/other");
  EXPECT_EQ(why["expected_start_time"], "2023-11-14T22:13:20Z");
  EXPECT_FALSE(why.contains("layout"));
  const Outcome described = Run({"describe", "job", "faulty"});
  EXPECT_THAT(described.out, HasSubstr("killed by signal 9  (2 steps again)"));
  EXPECT_THAT(described.out, HasSubstr("Step:          42/50"));
  EXPECT_THAT(described.out,
              HasSubstr("Step 42:  0.1 s, of which rank 0 computed - and waited 0.0125 s\n"
                        "  PURPOSE  COMPUTE  EXPOSED   BACKGROUND\n"
                        "  reduce   -        0.0125 s  0.05 s\n"));
  const auto json = nlohmann::json::parse(Run({"describe", "job", "faulty", "-o", "json"}).out);
  EXPECT_EQ(json["last_step"]["step"], 42);
  EXPECT_EQ(json["last_step"]["purposes"]["reduce"]["exposed"], 0.0125);
  EXPECT_EQ(json["last_step"]["purposes"]["reduce"]["background"], 0.05);
  EXPECT_THAT(Run({"cancel", "faulty"}).err, HasSubstr("--for=state=CANCELLED"));
  EXPECT_THAT(Run({"get", "jobs"}).out, HasSubstr("RECOVERING"));
}

}  // namespace
}  // namespace strata::client
