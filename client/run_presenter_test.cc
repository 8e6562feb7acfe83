#include "client/run_presenter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace strata::client {
namespace {

using strata::v1::Finished;
using strata::v1::Notice;
using strata::v1::StandaloneEvent;
using testing::HasSubstr;
using testing::Not;

class Presenter : public testing::Test {
 protected:
  Presenter() : err_(std::tmpfile()), terminal_(err_, err_, {}) {
    job_.set_name("bible");
    job_.mutable_train()->set_steps(100);
    job_.mutable_resources()->set_ranks(2);
  }
  ~Presenter() override { std::fclose(err_); }

  // Everything printed so far.
  std::string Printed() {
    std::fflush(err_);
    std::rewind(err_);
    std::string text(10'000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), err_));
    return text;
  }
  void Forget() {
    std::fflush(err_);
    ASSERT_EQ(ftruncate(fileno(err_), 0), 0);
    std::rewind(err_);
  }
  static StandaloneEvent Step(int64_t step, double loss) {
    StandaloneEvent event;
    event.mutable_step()->set_step(step);
    event.mutable_step()->set_loss(loss);
    event.mutable_step()->set_seconds(0.5);
    event.mutable_step()->set_tokens(1000);
    return event;
  }
  static Finished End(Finished::Outcome outcome, const std::string& message = "") {
    Finished finished;
    finished.set_outcome(outcome);
    finished.set_message(message);
    return finished;
  }

  std::FILE* err_;
  Terminal terminal_;
  common::ManualClock clock_;
  strata::v1::JobSpec job_;
};

TEST_F(Presenter, WholeRunIsTold) {
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  StandaloneEvent started;
  started.mutable_started()->set_parameters(1'800'000);
  started.mutable_started()->set_ranks(2);
  started.mutable_started()->set_steps(100);
  started.mutable_started()->set_resumed_from(0);
  auto& tier = *started.mutable_started()->add_memory();
  tier.set_tier("host");
  tier.set_predicted_bytes(3 << 20);
  presenter.OnEvent(started);
  for (int64_t step = 1; step <= 100; ++step) {
    presenter.OnEvent(Step(step, 5.5 - 0.02 * static_cast<double>(step)));
  }
  StandaloneEvent evaluation;
  evaluation.mutable_evaluation()->set_step(100);
  evaluation.mutable_evaluation()->set_validation_loss(1.5);
  presenter.OnEvent(evaluation);
  StandaloneEvent checkpoint;
  checkpoint.mutable_checkpoint()->set_path("/runs/bible/checkpoints/step-00000100");
  checkpoint.mutable_checkpoint()->set_step(100);
  presenter.OnEvent(checkpoint);
  clock_.Advance(75);
  presenter.Conclude(End(Finished::SUCCEEDED));
  const std::string printed = Printed();
  for (const char* part :
       {"job bible: starting 2 ranks in /runs/bible", "1.80 M parameters on 2 ranks",
        "host memory 3.00 MiB per rank", "resumed from the checkpoint of step 0",
        "step 1/100  loss 5.4800", "step 100/100  loss 3.5000", "loss by step",
        "validation loss 1.5000", "job bible SUCCEEDED in 1 min 15 s",
        "strata generate --from /runs/bible/checkpoints/step-00000100"}) {
    EXPECT_THAT(printed, HasSubstr(part));
  }
  const auto summary = nlohmann::json::parse(presenter.Summary(End(Finished::SUCCEEDED)));
  EXPECT_EQ(summary["state"], "SUCCEEDED");
  EXPECT_EQ(summary["step"], 100);
  EXPECT_EQ(summary["validation_loss"], 1.5);
}

TEST_F(Presenter, StepsThatWereNotAppliedAreCountedAtTheEnd) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto outcome : {Finished::SUCCEEDED, Finished::INTERRUPTED, Finished::FAILED}) {
    RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
    presenter.OnEvent(Step(1, 5.5));
    presenter.OnEvent(Step(2, nan));
    StandaloneEvent step = Step(3, 5.5);
    step.mutable_step()->set_grad_norm(std::numeric_limits<double>::infinity());
    presenter.OnEvent(step);
    presenter.OnEvent(Step(4, nan));
    Forget();
    presenter.Conclude(End(outcome));
    EXPECT_THAT(Printed(), HasSubstr(", 3 of 4 steps were not applied (not finite)"));
    EXPECT_THAT(Printed(), Not(HasSubstr("nan")));
  }
  RunPresenter clean(job_, "/runs/bible", terminal_, clock_);
  Forget();
  clean.OnEvent(Step(1, 5.5));
  clean.Conclude(End(Finished::SUCCEEDED));
  EXPECT_THAT(Printed(), Not(HasSubstr("not applied")));
}

TEST_F(Presenter, FailureIsToldWithItsReasonAlsoWhenQuiet) {
  terminal_.set_quiet();
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  presenter.OnEvent(Step(1, 5.5));
  StandaloneEvent warning;
  warning.mutable_notice()->set_severity(Notice::SEVERITY_WARNING);
  warning.mutable_notice()->set_text("checkpoint step-00000020 is damaged");
  presenter.OnEvent(warning);
  presenter.Conclude(End(Finished::FAILED, "rank 1 died"));
  EXPECT_THAT(Printed(), HasSubstr("FAILED after"));
  EXPECT_THAT(Printed(), HasSubstr("rank 1 died"));
  EXPECT_THAT(Printed(), HasSubstr("warning: checkpoint step-00000020 is damaged"));
  EXPECT_THAT(Printed(), Not(HasSubstr("loss 5.5")));
}

TEST_F(Presenter, InterruptionBeforeTheFirstStepPromisesNoCheckpoint) {
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  presenter.OnSignal();
  presenter.Conclude(End(Finished::INTERRUPTED));
  EXPECT_THAT(Printed(), HasSubstr("interrupted before the first step"));
  EXPECT_THAT(Printed(), HasSubstr("start it with the same command"));
  EXPECT_THAT(Printed(), Not(HasSubstr("committing")));
  EXPECT_THAT(Printed(), Not(HasSubstr("--resume")));
}

TEST_F(Presenter, FailureAfterACheckpointSaysHowToGoOnFromIt) {
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  presenter.OnEvent(Step(1, 5.5));
  StandaloneEvent committed;
  committed.mutable_checkpoint()->set_step(1);
  committed.mutable_checkpoint()->set_path("/runs/bible/checkpoints/step-00000001");
  presenter.OnEvent(committed);
  Forget();
  presenter.Conclude(End(Finished::FAILED, "no space left — make room there"));
  EXPECT_THAT(Printed(), HasSubstr("make room there"));
  EXPECT_THAT(Printed(), HasSubstr("/runs/bible/checkpoints/step-00000001: go on with"));
  EXPECT_THAT(Printed(), HasSubstr("--resume"));
}

TEST_F(Presenter, FailureBeforeACheckpointPromisesNone) {
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  presenter.OnEvent(Step(1, 5.5));
  presenter.Conclude(End(Finished::FAILED, "no space left"));
  EXPECT_THAT(Printed(), Not(HasSubstr("--resume")));
}

TEST_F(Presenter, StepsThatComeAgainAreCountedOnce) {
  RunPresenter presenter("bible", 100, "/runs/bible", RunPresenter::Place::kCluster, terminal_,
                         clock_);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t step : {1, 2, 3, 2, 3}) presenter.OnEvent(Step(step, step == 2 ? nan : 1.0));
  presenter.set_took(65);
  presenter.Conclude(End(Finished::SUCCEEDED));
  EXPECT_THAT(Printed(), HasSubstr("1 of 3 steps were not applied"));
  EXPECT_THAT(Printed(), HasSubstr("SUCCEEDED in 1 min 5 s"));
}

TEST_F(Presenter, InterruptionSaysHowToGoOn) {
  RunPresenter presenter(job_, "/runs/bible", terminal_, clock_);
  presenter.OnEvent(Step(1, 5.5));
  presenter.OnSignal();
  presenter.OnSignal();
  presenter.Conclude(End(Finished::INTERRUPTED));
  EXPECT_THAT(Printed(), HasSubstr("committing a checkpoint"));
  EXPECT_THAT(Printed(), HasSubstr("ending at once"));
  EXPECT_THAT(Printed(), HasSubstr("--resume"));
}

}  // namespace
}  // namespace strata::client
