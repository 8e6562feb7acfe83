#include "client/worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client/frame_pipe.h"

namespace strata::client {
namespace {

using strata::v1::Finished;
using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kFakeWorker[] = "client/fake_worker";

struct Outcome {
  Finished finished;
  std::vector<std::string> notices;
};

Outcome RunFake(const std::string& task, int signals_when_ready = 0,
                absl::Duration patience = absl::Seconds(60), int signal = SIGINT) {
  StandaloneRequest request;
  request.set_prompt(task);
  Outcome run;
  WorkerCallbacks callbacks;
  const auto interrupt = [&] {
    if (signals_when_ready-- > 0) kill(getpid(), signal);
  };
  callbacks.on_event = [&](const StandaloneEvent& event) {
    if (!event.has_notice()) return;
    run.notices.push_back(event.notice().text());
    interrupt();
  };
  callbacks.on_signal = [&](int) {
    if (task == "ignore signals") interrupt();
  };
  const auto finished = RunWorker(kFakeWorker, request, callbacks, patience);
  EXPECT_TRUE(finished.ok()) << finished.status();
  if (finished.ok()) run.finished = *finished;
  return run;
}

TEST(RunWorker, EventsComeInOrder) {
  const Outcome run = RunFake("many events");
  EXPECT_EQ(run.finished.outcome(), Finished::SUCCEEDED);
  ASSERT_EQ(run.notices.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(run.notices[static_cast<size_t>(i)], std::to_string(i));
}

TEST(RunWorker, WorkerThatCannotBeStarted_IsAnError) {
  const auto finished = RunWorker("client/no-such-binary", {}, {[](const StandaloneEvent&) {}});
  EXPECT_THAT(std::string(finished.status().message()), HasSubstr("no-such-binary"));
}

TEST(RunWorker, EndWithoutFinished_TellsExitCodeOrSignal) {
  const Outcome exited = RunFake("exit 7");
  EXPECT_EQ(exited.finished.outcome(), Finished::FAILED);
  EXPECT_EQ(exited.finished.exit_code(), 1);
  EXPECT_THAT(exited.finished.message(), HasSubstr("exit code 7"));
  EXPECT_THAT(RunFake("crash").finished.message(), HasSubstr("signal 9"));
}

TEST(RunWorker, BrokenProtocol_KillsTheWorker) {
  EXPECT_THAT(RunFake("garbage").finished.message(), HasSubstr("not Strata's protocol"));
}

TEST(RunWorker, WorkerThatLingersAfterItsLastEvent_IsKilled) {
  const Outcome run = RunFake("finish and linger", 0, absl::Milliseconds(50));
  EXPECT_EQ(run.finished.outcome(), Finished::SUCCEEDED);
}

TEST(RunWorker, WorkerWhoseEventsNobodyWantsAnyMore_IsEndedAtOnce) {
  StandaloneRequest request;
  request.set_prompt("events without end");
  int events = 0;
  WorkerCallbacks callbacks;
  callbacks.on_event = [&](const StandaloneEvent&) { ++events; };
  callbacks.go_on = [&] { return events < 3; };
  const auto finished = RunWorker(kFakeWorker, request, callbacks, absl::Seconds(60));
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->outcome(), Finished::FAILED);
  EXPECT_THAT(finished->message(), HasSubstr("signal 15"));  // it had no need to be killed
  EXPECT_EQ(events, 3);
}

TEST(RunWorker, SilentWorkerThatNobodyWantsAnyMore_IsEnded) {
  StandaloneRequest request;
  request.set_prompt("obey signals");  // it says that it is ready, and then nothing
  bool idle = false;
  WorkerCallbacks callbacks;
  callbacks.on_event = [](const StandaloneEvent&) {};
  callbacks.on_idle = [&] { idle = true; };
  callbacks.go_on = [&] { return !idle; };
  const auto finished = RunWorker(kFakeWorker, request, callbacks, absl::Milliseconds(50));
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->outcome(), Finished::FAILED);
  EXPECT_THAT(finished->message(), HasSubstr("signal 9"));  // one signal does not end it
}

TEST(RunWorker, SignalsArePassedOn) {
  const Outcome run = RunFake("obey signals", 2);
  EXPECT_THAT(run.notices, ElementsAre("ready", "got SIGINT", "got SIGINT"));
  EXPECT_EQ(run.finished.outcome(), Finished::INTERRUPTED);
  EXPECT_EQ(run.finished.exit_code(), 130);
}

TEST(RunWorker, HangupsArePassedOnAsRequestsToEnd) {
  const Outcome run = RunFake("obey signals", 2, absl::Seconds(60), SIGHUP);
  EXPECT_THAT(run.notices, ElementsAre("ready", "got SIGTERM", "got SIGTERM"));
  EXPECT_EQ(run.finished.exit_code(), 130);
}

TEST(RunWorker, HangupsThatAreIgnoredStayIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);  // as nohup does
  kill(getpid(), SIGHUP);
  const Outcome run = RunFake("many events", 0);
  ::signal(SIGHUP, before);
  EXPECT_EQ(run.finished.outcome(), Finished::SUCCEEDED);
}

TEST(RunWorker, WorkerThatIgnoresTwoSignals_IsKilled) {
  const Outcome run = RunFake("ignore signals", 2, absl::Milliseconds(50));
  EXPECT_EQ(run.finished.outcome(), Finished::INTERRUPTED);
  EXPECT_EQ(run.finished.exit_code(), 130);
}

TEST(Frames, PartialOnesWait) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  StandaloneEvent sent;
  sent.mutable_notice()->set_text("hello");
  ASSERT_TRUE(WriteFrame(ends[1], sent).ok());
  std::string bytes(1000, '\0');
  const ssize_t size = read(ends[0], bytes.data(), bytes.size());
  ASSERT_GT(size, 4);
  protocol::FrameDecoder frames;
  StandaloneEvent got;
  for (ssize_t i = 0; i < size; ++i) {
    EXPECT_FALSE(*frames.Next(&got)) << i;
    ASSERT_EQ(write(ends[1], &bytes[static_cast<size_t>(i)], 1), 1);
    ASSERT_TRUE(*ReadFrames(ends[0], frames));
  }
  EXPECT_TRUE(*frames.Next(&got));
  EXPECT_EQ(got.notice().text(), "hello");
  EXPECT_EQ(frames.pending(), 0u);
  close(ends[1]);
  EXPECT_FALSE(*ReadFrames(ends[0], frames));
  close(ends[0]);
}

}  // namespace
}  // namespace strata::client
