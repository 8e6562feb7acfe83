#include "controller/metrics/metrics.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/metrics/exposition_check.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() { static_cast<void>(core_.Load({}, 0).ok()); }

  static v1::JobRecord Running(const std::string& name) {
    v1::JobRecord job;
    job.set_name("jobs/" + name);
    job.set_state(v1::Job::RUNNING);
    job.set_epoch(1);
    job.set_parameters(10);
    job.set_target_step(100);
    return job;
  }
  void Change(const v1::JobRecord& job) {
    Effects effects;
    effects.changed.push_back(job);
    metrics_->OnEffects(core_, effects);
  }
  void Step(const std::string& name, double seconds) {
    Effects effects;
    effects.progress.push_back({"jobs/" + name, {}});
    v1::StepRecord& step = *effects.progress[0].progress.mutable_step();
    step.set_step(1);
    step.set_loss(2.5);
    step.set_grad_norm(0.5);
    step.set_learning_rate(0.25);
    step.set_tokens(64);
    step.set_seconds(seconds);
    step.set_exposed_communication_seconds(0.125);
    step.set_validation_loss(3.5);
    step.set_predicted_seconds(0.5);
    auto& forward = *step.add_purposes();
    forward.set_purpose("forward");
    forward.set_compute_seconds(0.125);
    auto& reduce = *step.add_purposes();
    reduce.set_purpose("reduce");
    reduce.set_exposed_seconds(0.0625);
    reduce.set_background_seconds(1);
    auto& memory = *step.add_memory();
    memory.set_tier("host");
    memory.set_predicted_bytes(100);
    memory.set_measured_bytes(99);
    memory.set_locked_bytes(64);
    memory.set_misplaced_bytes(4);
    auto& ssd = *step.add_memory();
    ssd.set_tier("ssd");
    ssd.set_write_rate(5e6);
    ssd.set_busiest_read_bytes(70);
    ssd.set_busiest_written_bytes(60);
    ssd.set_processor_seconds(0.25);
    auto& path = *ssd.add_paths();
    path.set_path("/scratch");
    path.set_read_bytes(4096);
    path.set_written_bytes(8192);
    path.set_read_seconds(0.5);
    path.set_write_seconds(0.125);
    path.set_mean_queue_depth(6.5);
    path.set_most_queue_depth(8);
    auto& transfer = *step.add_transfers();
    transfer.set_stream("ssd-read");
    transfer.set_bytes(4096);
    transfer.set_seconds(0.5);
    transfer.set_stall_seconds(0.25);
    metrics_->OnEffects(core_, effects);
  }
  std::string Text() { return Text(core_); }
  std::string Text(const Core& core) {
    clock_.Advance(1.5);
    metrics_->OnTick(core);
    return metrics_->Text();
  }

  common::ManualClock clock_;
  Core core_{&clock_};
  const std::unique_ptr<Metrics> metrics_ = Metrics::Make("1.2.3", &clock_);
};

TEST_F(MetricsTest, StepsAddUp) {
  Change(Running("a"));
  Step("a", 0.5);
  Step("a", 0.25);
  Step("a", -1e9);
  const std::string text = Text();
  for (const char* line :
       {"strata_build_info{component=\"controller\",version=\"1.2.3\"} 1\n",
        "strata_jobs{state=\"RUNNING\"} 1\n",
        "strata_jobs{state=\"QUEUED\"} 0\n",
        "strata_job_steps_total{job_id=\"a\"} 3\n",
        "strata_job_tokens_total{job_id=\"a\"} 192\n",
        "strata_job_model_flops_total{job_id=\"a\"} 11520\n",
        "strata_job_loss{job_id=\"a\"} 2.5\n",
        "strata_job_grad_norm{job_id=\"a\"} 0.5\n",
        "strata_job_learning_rate{job_id=\"a\"} 0.25\n",
        "strata_job_validation_loss{job_id=\"a\"} 3.5\n",
        "strata_job_target_steps{job_id=\"a\"} 100\n",
        "strata_job_phase_seconds_total{job_id=\"a\",phase=\"forward\"} 0.375\n",
        "strata_job_phase_seconds_total{job_id=\"a\",phase=\"reduce\"} 0.1875\n",
        "strata_job_phase_seconds_total{job_id=\"a\",phase=\"other\"} 0.375\n",
        "strata_job_exposed_seconds_total{job_id=\"a\",phase=\"reduce\"} 0.1875\n",
        "strata_job_background_seconds_total{job_id=\"a\",phase=\"reduce\"} 3\n",
        "strata_job_exposed_communication_seconds_total{job_id=\"a\"} 0.375\n",
        "strata_job_predicted_step_seconds{job_id=\"a\"} 0.5\n",
        "strata_rank_memory_bytes{job_id=\"a\",kind=\"predicted\",tier=\"host\"} 100\n",
        "strata_rank_memory_bytes{job_id=\"a\",kind=\"measured\",tier=\"host\"} 99\n",
        "strata_rank_memory_bytes{job_id=\"a\",kind=\"locked\",tier=\"host\"} 64\n",
        "strata_rank_memory_bytes{job_id=\"a\",kind=\"misplaced\",tier=\"host\"} 4\n",
        "strata_rank_transfer_bytes_total{job_id=\"a\",stream=\"ssd-read\"} 12288\n",
        "strata_rank_transfer_seconds_total{job_id=\"a\",stream=\"ssd-read\"} 1.5\n",
        "strata_rank_transfer_stall_seconds_total{job_id=\"a\",stream=\"ssd-read\"} 0.75\n",
        "strata_rank_ssd_bytes_total{direction=\"read\",job_id=\"a\",path=\"/scratch\"} 12288\n",
        "strata_rank_ssd_bytes_total{direction=\"write\",job_id=\"a\",path=\"/scratch\"} 24576\n",
        "strata_rank_ssd_busy_seconds_total{direction=\"write\",job_id=\"a\",path=\"/scratch\"} "
        "0.375\n",
        "strata_rank_ssd_stall_seconds_total{direction=\"read\",job_id=\"a\",path=\"/scratch\"} "
        "0.75\n",
        "strata_rank_ssd_queue_depth{job_id=\"a\",kind=\"mean\",path=\"/scratch\"} 6.5\n",
        "strata_rank_ssd_queue_depth{job_id=\"a\",kind=\"most\",path=\"/scratch\"} 8\n",
        "strata_rank_ssd_busiest_100ms_bytes{direction=\"read\",job_id=\"a\"} 70\n",
        "strata_rank_ssd_busiest_100ms_bytes{direction=\"write\",job_id=\"a\"} 60\n",
        "strata_rank_ssd_write_rate_bytes_per_second{job_id=\"a\"} 5000000\n",
        "strata_rank_ssd_processor_seconds_total{job_id=\"a\"} 0.75\n",
        "strata_job_step_duration_seconds_count{job_id=\"a\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

v1::DeviceState Accelerator(int device) {
  v1::DeviceState state;
  state.set_device(device);
  state.set_health(v1::DeviceState::HEALTHY);
  state.set_product("NVIDIA H100 80GB HBM3");
  state.set_uuid("GPU-5e4f");
  state.set_utilization(0.5);
  state.set_memory_used_bytes(1024);
  state.set_temperature_celsius(61);
  state.set_power_watts(641.5);
  state.set_sm_clock_hertz(1.98e9);
  state.set_ecc_corrected(4);
  state.set_ecc_uncorrected(0);
  state.set_throttled(true);
  (*state.mutable_xids())[31] = 2;
  return state;
}

TEST_F(MetricsTest, AcceleratorsHaveWhatTheirDriverTells) {
  v1::AgentMessage hello;
  *hello.mutable_register_()->add_device_states() = Accelerator(3);
  metrics_->OnAgentMessage("nodes/n0", hello);
  std::string text = Text();
  for (const char* line :
       {"strata_device_info{device=\"3\",node=\"n0\",product=\"NVIDIA H100 80GB HBM3\","
        "uuid=\"GPU-5e4f\"} 1\n",
        "strata_device_unhealthy{device=\"3\",node=\"n0\"} 0\n",
        "strata_device_utilization_ratio{device=\"3\",node=\"n0\"} 0.5\n",
        "strata_device_power_watts{device=\"3\",node=\"n0\"} 641.5\n",
        "strata_device_throttled{device=\"3\",node=\"n0\"} 1\n",
        "strata_device_ecc_errors{device=\"3\",kind=\"corrected\",node=\"n0\"} 4\n",
        "strata_device_xids{device=\"3\",node=\"n0\",xid=\"31\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  v1::AgentMessage beat;
  v1::DeviceState& state = *beat.mutable_heartbeat()->add_device_states();
  state.set_device(3);
  state.set_health(v1::DeviceState::UNHEALTHY);
  state.set_temperature_celsius(std::numeric_limits<double>::quiet_NaN());
  metrics_->OnAgentMessage("nodes/n0", beat);
  text = Text();
  EXPECT_THAT(text, HasSubstr("strata_device_unhealthy{device=\"3\",node=\"n0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("uuid=\"GPU-5e4f\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("strata_device_temperature_celsius{")));  // not told any more
  EXPECT_THAT(ExpositionProblems(text), testing::IsEmpty());
  clock_.Advance(120);
  EXPECT_THAT(Text(), Not(HasSubstr("device=\"3\"")));
}

TEST_F(MetricsTest, OnlySoManyAcceleratorsAndXidsHaveSeries) {
  v1::AgentMessage beat;
  for (int i = 0; i < 2100; ++i) {
    v1::DeviceState& state = *beat.mutable_heartbeat()->add_device_states();
    state.set_device(i);
    for (int xid = 0; i == 0 && xid < 100; ++xid) (*state.mutable_xids())[xid] = 1;
  }
  metrics_->OnAgentMessage("nodes/n0", beat);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("strata_device_unhealthy{device=\"2047\""));
  EXPECT_THAT(text, Not(HasSubstr("strata_device_unhealthy{device=\"2048\"")));
  EXPECT_THAT(text, HasSubstr("xid=\"15\""));
  EXPECT_THAT(text, Not(HasSubstr("xid=\"16\"")));
}

// One family of plans, as a controller finds it in its store.
Write LearnedPlan(double ratio) {
  v1::PlanFamily family;
  family.set_workload("llama");
  family.set_layout("data 2");
  family.set_ratio(ratio);
  return {PlanFamilies::kTable, "llama; data 2", family.SerializeAsString()};
}

TEST_F(MetricsTest, ShowsHowFarPredictionsAreOff) {
  Core core(&clock_);
  ASSERT_TRUE(core.Load({LearnedPlan(1.25)}, 0).ok());
  const std::string line = "strata_plan_prediction_ratio{layout=\"data 2\",workload=\"llama\"} ";
  EXPECT_THAT(Text(core), HasSubstr(line + "1.25\n"));
  Core other(&clock_);
  ASSERT_TRUE(other.Load({LearnedPlan(1), LearnedPlan(0.5)}, 0).ok());
  EXPECT_THAT(Text(other), HasSubstr(line + "0.5\n"));
}

// Series that a dashboard or an alert asks for and nobody has would show empty panels, and never
// fire.
TEST_F(MetricsTest, EverySeriesOfDashboardsAndAlertsIsThere) {
  Change(Running("a"));
  Step("a", 0.5);
  v1::AgentMessage hello;
  *hello.mutable_register_()->add_device_states() = Accelerator(0);
  metrics_->OnAgentMessage("nodes/n0", hello);
  Core core(&clock_);
  ASSERT_TRUE(core.Load({LearnedPlan(1.25)}, 0).ok());
  const std::string text = Text(core);
  int found = 0;
  for (const char* name :
       {"deploy/grafana/memory.json", "deploy/grafana/gpus.json", "deploy/grafana/predictions.json",
        "deploy/prometheus/strata.rules.yaml"}) {
    std::ifstream file(name);
    ASSERT_TRUE(file.is_open());
    const std::string asking{std::istreambuf_iterator<char>(file), {}};
    for (size_t at = 0; (at = asking.find("strata_", at)) != std::string::npos; ++found) {
      const size_t end = asking.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at);
      EXPECT_THAT(text, testing::ContainsRegex("\n" + asking.substr(at, end - at) + "[{ ]"));
      at = end;
    }
  }
  EXPECT_GE(found, 24);
}

v1::JobEvent Event(int64_t epoch, const std::string& cause) {
  v1::JobEvent event;
  event.set_epoch(epoch);
  event.set_cause(cause);
  event.set_lost_steps(7);
  return event;
}

TEST_F(MetricsTest, RestartsAreCountedOnceByCause) {
  v1::JobRecord job = Running("a");
  Change(job);
  EXPECT_THAT(Text(), HasSubstr("strata_job_restarts_total{cause=\"hang\",job_id=\"a\"} 0\n"));
  job.set_state(v1::Job::RECOVERING);
  *job.add_events() = Event(1, "trainer_died");
  Change(job);
  job.mutable_events(0)->set_cause("node_lost");  // a better word of the same end
  Change(job);
  job.set_state(v1::Job::STARTING);
  job.set_epoch(2);
  Change(job);
  Change(job);
  *job.add_events() = Event(2, "hang");
  job.set_epoch(3);
  Change(job);
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("strata_job_restarts_total{cause=\"trainer_died\",job_id=\"a\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("strata_job_restarts_total{cause=\"node_lost\",job_id=\"a\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("strata_job_restarts_total{cause=\"hang\",job_id=\"a\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("strata_job_lost_steps_total{job_id=\"a\"} 14\n"));
}

TEST_F(MetricsTest, AnEndIsNoRestart) {
  v1::JobRecord job = Running("a");
  Change(job);
  job.set_state(v1::Job::CANCELLED);
  *job.add_events() = Event(1, "user");
  Change(job);
  const std::string text = Text();
  EXPECT_THAT(text, Not(HasSubstr("cause=\"user\"")));
  EXPECT_THAT(text, HasSubstr("strata_job_lost_steps_total{job_id=\"a\"} 0\n"));
}

TEST_F(MetricsTest, WhatWasNeverMeasuredIsAbsent) {
  Change(Running("a"));
  const std::string text = Text();
  for (const char* name :
       {"loss", "validation_loss", "grad_norm", "learning_rate", "last_step_timestamp_seconds",
        "checkpoint_last_success_timestamp_seconds"}) {
    EXPECT_THAT(text, Not(HasSubstr("\nstrata_job_" + std::string(name) + "{")));
  }
  EXPECT_THAT(text, HasSubstr("strata_job_steps_total{job_id=\"a\"} 0\n"));
}

TEST_F(MetricsTest, AfterARestartOfTheControllerAJobThatRunsHasItsSeriesAgain) {
  Core again(&clock_);
  ASSERT_TRUE(again.Load({{"jobs", "jobs/a", Running("a").SerializeAsString()}}, 0).ok());
  metrics_->OnLoad(again);
  EXPECT_THAT(Text(), HasSubstr("strata_job_target_steps{job_id=\"a\"} 100\n"));
}

TEST_F(MetricsTest, SeriesGoAnHourAfterTheJobsEnd) {
  v1::JobRecord job = Running("a");
  Change(job);
  Step("a", 1);
  job.set_state(v1::Job::SUCCEEDED);
  Change(job);
  clock_.Advance(Metrics::kKeepSeconds - 10);
  EXPECT_THAT(Text(), HasSubstr("job_id=\"a\""));
  clock_.Advance(20);
  const std::string text = Text();
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"a\"")));
  EXPECT_THAT(text, HasSubstr("strata_jobs{state=\"SUCCEEDED\"} 1\n"));
  Effects effects;
  effects.deleted.emplace_back().set_name("jobs/a");
  metrics_->OnEffects(core_, effects);
  EXPECT_THAT(Text(), HasSubstr("strata_jobs{state=\"SUCCEEDED\"} 0\n"));
}

TEST_F(MetricsTest, OnlySoManyJobsHaveSeries) {
  for (size_t i = 0; i < Metrics::kMostJobs + 10; ++i) Change(Running(std::to_string(i)));
  const std::string text = Text();
  size_t series = 0;
  for (size_t at = 0; (at = text.find("strata_job_steps_total{", at)) != std::string::npos; ++at)
    ++series;
  EXPECT_EQ(series, Metrics::kMostJobs);
}

TEST_F(MetricsTest, JobsThatEndedMakeRoomForThoseThatRun) {
  for (size_t i = 0; i < Metrics::kMostJobs; ++i) Change(Running(std::to_string(i)));
  for (const char* name : {"7", "3"}) {
    v1::JobRecord job = Running(name);
    job.set_state(v1::Job::FAILED);
    clock_.Advance(1);
    Change(job);
  }
  Change(Running("new"));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("strata_job_steps_total{job_id=\"new\"}"));
  EXPECT_THAT(text, HasSubstr("strata_job_steps_total{job_id=\"3\"}"));
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"7\"")));
  // Late words of a job that has ended take nothing from the others.
  Step("7", 1);
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=\"7\"")));
}

TEST_F(MetricsTest, PhasesOfOneJobAreLimited) {
  Change(Running("a"));
  Effects effects;
  for (int i = 0; i < 1000; ++i) {
    effects.progress.push_back({"jobs/a", {}});
    auto& purpose = *effects.progress.back().progress.mutable_step()->add_purposes();
    purpose.set_purpose("phase" + std::to_string(i));
    purpose.set_compute_seconds(1);
    auto& memory = *effects.progress.back().progress.mutable_step()->add_memory();
    memory.set_tier("tier" + std::to_string(i));
  }
  metrics_->OnEffects(core_, effects);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("phase=\"phase0\""));
  EXPECT_THAT(text, HasSubstr("tier=\"tier0\""));
  EXPECT_THAT(text, Not(HasSubstr("phase=\"phase100\"")));
  EXPECT_THAT(text, Not(HasSubstr("tier=\"tier100\"")));
}

TEST_F(MetricsTest, PageIsInPrometheusFormat) {
  EXPECT_THAT(ExpositionProblems(Text()), testing::IsEmpty());
  v1::JobRecord job = Running("a");
  *job.add_events() = Event(1, "odd \"cause\"\n\\");
  Change(Running("a"));
  job.set_epoch(2);
  Change(job);
  Step("a", 0.5);
  Step("a", std::numeric_limits<double>::quiet_NaN());
  metrics_->OnCall("JobService/GetJob", "OK", 0.002);
  v1::AgentMessage beat;
  beat.mutable_heartbeat();
  metrics_->OnAgentMessage("nodes/n0", beat);
  EXPECT_THAT(ExpositionProblems(Text()), testing::IsEmpty());
}

TEST(ExpositionProblems, AreFound) {
  const std::string good =
      "# HELP strata_a_total Help.\n# TYPE strata_a_total counter\nstrata_a_total{b=\"c\"} 1\n"
      "# HELP strata_s_seconds Help.\n# TYPE strata_s_seconds histogram\n"
      "strata_s_seconds_count 2\nstrata_s_seconds_sum 1.5\n"
      "strata_s_seconds_bucket{le=\"1\"} 1\nstrata_s_seconds_bucket{le=\"+Inf\"} 2\n";
  EXPECT_THAT(ExpositionProblems(good), testing::IsEmpty());
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string page = good;
    for (size_t at = 0; (at = page.find(part, at)) != std::string::npos; at += other.size()) {
      page.replace(at, part.size(), other);
    }
    return ExpositionProblems(page);
  };
  EXPECT_THAT(with("strata_a", "other_a"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("_total", ""), Not(testing::IsEmpty()));
  EXPECT_THAT(with(" counter", " gauge"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("_seconds", "_ms"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("\"c\"", "\"c"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("_count 2", "_count 3"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("le=\"1\"} 1", "le=\"1\"} 3"), Not(testing::IsEmpty()));
  EXPECT_THAT(with("strata_s_seconds_sum 1.5\n", ""), Not(testing::IsEmpty()));
  EXPECT_THAT(ExpositionProblems(good + good), Not(testing::IsEmpty()));
}

TEST_F(MetricsTest, WaitsForTheFirstStartAreObserved) {
  v1::JobRecord job = Running("a");
  job.set_state(v1::Job::QUEUED);
  job.set_epoch(0);
  Change(job);
  EXPECT_THAT(Text(), Not(HasSubstr("strata_job_queue_wait_seconds_count")));
  Change(Running("a"));
  Change(Running("a"));
  EXPECT_THAT(Text(), HasSubstr("strata_job_queue_wait_seconds_count{queue=\"default\"} 1\n"));
}

TEST_F(MetricsTest, HeartbeatsAndCallsAreObserved) {
  metrics_->OnLoad(core_);
  v1::AgentMessage hello;
  hello.mutable_register_();
  v1::AgentMessage beat;
  beat.mutable_heartbeat();
  metrics_->OnAgentMessage("nodes/n0", hello);
  clock_.Advance(3);
  metrics_->OnAgentMessage("nodes/n0", beat);
  metrics_->OnCall("JobService/GetJob", "NOT_FOUND", 0.002);
  metrics_->OnCall("JobService/GetJob", "OK", 0.002);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("strata_worker_last_heartbeat_timestamp_seconds{node=\"n0\"} "));
  EXPECT_THAT(text, HasSubstr("strata_heartbeat_lag_seconds_sum 2\n"));
  EXPECT_THAT(text, HasSubstr("strata_rpc_handled_total{code=\"NOT_FOUND\",method=\"JobService/"));
  EXPECT_THAT(text,
              HasSubstr("strata_rpc_handling_seconds_count{method=\"JobService/GetJob\"} 2\n"));
}

TEST_F(MetricsTest, AControllerThatHearsNobodySaysSo) {
  for (const uint64_t session : {1, 2}) {
    v1::AgentMessage hello;
    hello.set_incarnation(session);
    hello.mutable_register_()->set_node(absl::StrCat("n", session));
    hello.mutable_register_()->set_device("cpu");
    hello.mutable_register_()->set_devices(1);
    Effects effects;
    core_.OnAgent(session, hello, effects);
  }
  const auto tick = [&] {
    Effects effects;
    core_.OnTick(0, effects);
  };
  tick();
  EXPECT_THAT(Text(), HasSubstr("strata_controller_isolated 0\n"));
  clock_.Advance(10);
  tick();
  EXPECT_THAT(Text(), HasSubstr("strata_controller_isolated 1\n"));
}

// What is counted is the state as of the last tick, which nobody changes any more.
TEST_F(MetricsTest, ScrapesCountASnapshotWhileTheLogicGoesOn) {
  const auto submit = [&](const std::string& name) {
    Effects effects;
    ASSERT_TRUE(core_.CreateJob(LogicRequest(name), effects).ok());
  };
  submit("a");
  EXPECT_THAT(Text(), HasSubstr("strata_pending_jobs 1\n"));
  std::vector<std::thread> scraping;
  for (int i = 0; i < 2; ++i) {
    scraping.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        EXPECT_THAT(metrics_->Text(), HasSubstr("strata_pending_jobs 1\n"));
      }
    });
  }
  for (int i = 0; i < 20; ++i) submit(absl::StrCat("b", i));
  for (std::thread& each : scraping) each.join();
  EXPECT_THAT(Text(), HasSubstr("strata_pending_jobs 21\n"));
}

}  // namespace
}  // namespace strata::controller
