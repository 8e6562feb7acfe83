#include "controller/service/reactor/reactor.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "controller/service/testing/test_support.h"
#include "controller/store/in_memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::ElementsAre;

// A reactor on a thread of its own; the store can be held up.
class ReactorTest : public testing::Test, public Reactor::Listener {
 protected:
  void Start(Reactor::Options options = {}) {
    options.tick_seconds = 0.02;
    reactor_ = std::make_unique<Reactor>(
        &store_, [this] { return std::make_unique<Core>(&clock_); }, &clock_, options);
    reactor_->AddListener(this);
    ASSERT_TRUE(reactor_->Load().ok());
    thread_ = std::thread([this] { result_ = reactor_->Run(stop_); });
  }
  void TearDown() override { Stop(); }  // while it is still the listener it was
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Holds the store's next commits until the gate opens; `reached` opens when the first one came.
  void HoldCommits() {
    store_.set_before_commit([this] {
      reached_.Open();
      gate_.Wait();
      return absl::OkStatus();
    });
  }
  void OnEffects(const Core&, const Effects& effects) override {
    for (const v1::JobRecord& job : effects.changed) events_.push_back("changed " + job.name());
  }
  void OnStop() override { events_.push_back("stopped"); }

  // Creates a job; the outcome goes to events_ ("created NAME" or the status's code).
  Reactor::Input Creating(const std::string& name) {
    Reactor::Input input;
    const auto outcome = std::make_shared<absl::Status>();
    input.apply = [name, outcome](Core& core, Effects& effects) {
      *outcome = core.CreateJob(LogicRequest(name), effects).status();
    };
    input.release = [this, name, outcome](const absl::Status& durable) {
      const absl::Status status = durable.ok() ? *outcome : durable;
      events_.push_back(status.ok() ? "created " + name
                                    : absl::StatusCodeToString(status.code()) + " " + name);
    };
    return input;
  }
  // Runs after everything that was posted before; then events_ may be read.
  void Flush() {
    Gate done;
    Reactor::Input input;
    input.reads_only = true;
    input.apply = [](Core&, Effects&) {};
    input.release = [&](const absl::Status&) { done.Open(); };
    ASSERT_TRUE(reactor_->PostUnlimited(std::move(input)).ok());
    done.Wait();
  }
  bool HasJob(const std::string& name) {
    Gate done;
    bool found = false;
    Reactor::Input input;
    input.reads_only = true;
    input.apply = [&](Core& core, Effects&) { found = core.FindJob("jobs/" + name) != nullptr; };
    input.release = [&](const absl::Status&) { done.Open(); };
    EXPECT_TRUE(reactor_->PostUnlimited(std::move(input)).ok());
    done.Wait();
    return found;
  }

  const common::MonotonicClock clock_{};
  InMemoryStore store_;
  Gate reached_;
  Gate gate_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Reactor> reactor_;
  std::thread thread_;
  absl::Status result_;
  std::vector<std::string> events_;  // of the reactor's thread
};

TEST_F(ReactorTest, InputsOfABatchShareOneCommitAndAreReleasedInOrder) {
  Start();
  HoldCommits();
  ASSERT_TRUE(reactor_->Post(Creating("first")).ok());
  reached_.Wait();  // the others now wait for its commit
  const int64_t before = store_.commits();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(reactor_->Post(Creating("j" + std::to_string(i))).ok());
  }
  EXPECT_TRUE(events_.empty()) << "nothing may be said before it is durable";
  gate_.Open();
  Flush();
  EXPECT_EQ(store_.commits() - before, 2);
  std::vector<std::string> expected = {"changed jobs/first", "created first"};
  for (int i = 0; i < 100; ++i) expected.push_back("changed jobs/j" + std::to_string(i));
  for (int i = 0; i < 100; ++i) expected.push_back("created j" + std::to_string(i));
  EXPECT_EQ(events_, expected);
}

TEST_F(ReactorTest, BatchesAreLimited) {
  Reactor::Options options;
  options.batch = 10;
  Start(options);
  HoldCommits();
  ASSERT_TRUE(reactor_->Post(Creating("first")).ok());
  reached_.Wait();
  const int64_t before = store_.commits();
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(reactor_->Post(Creating("j" + std::to_string(i))).ok());
  }
  gate_.Open();
  Flush();
  EXPECT_EQ(store_.commits() - before, 4);
}

TEST_F(ReactorTest, QueueFullOfRequestsRefusesFurtherOnesButNotAgents) {
  Reactor::Options options;
  options.most_queued = 3;
  Start(options);
  HoldCommits();
  ASSERT_TRUE(reactor_->Post(Creating("first")).ok());
  reached_.Wait();
  for (const char* name :
       {"p", "q", "r", "s"}) {  // of agents: nobody's request is refused for them
    ASSERT_TRUE(reactor_->PostUnlimited(Creating(name)).ok());
  }
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(reactor_->Post(Creating(name)).ok());
  EXPECT_EQ(reactor_->Post(Creating("d")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(reactor_->PostUnlimited(Creating("e")).ok());
  gate_.Open();
  Flush();
  EXPECT_TRUE(HasJob("c"));
  EXPECT_FALSE(HasJob("d"));
  EXPECT_TRUE(HasJob("e"));
  for (const char* name : {"f", "g", "h"}) EXPECT_TRUE(reactor_->Post(Creating(name)).ok());
  Flush();
  EXPECT_TRUE(HasJob("h"));
}

TEST_F(ReactorTest, FullDiskUndoesTheBatchAndRefusesChangesUntilThereIsRoom) {
  Start();
  ASSERT_TRUE(reactor_->Post(Creating("kept")).ok());
  Flush();
  std::atomic<bool> full{true};
  store_.set_before_commit(
      [&] { return full ? absl::ResourceExhaustedError("full") : absl::OkStatus(); });
  ASSERT_TRUE(reactor_->Post(Creating("lost")).ok());
  Flush();
  EXPECT_FALSE(reactor_->ready());
  EXPECT_FALSE(HasJob("lost"));
  EXPECT_TRUE(HasJob("kept"));
  ASSERT_TRUE(reactor_->Post(Creating("refused")).ok());
  Flush();
  full = false;
  while (!reactor_->ready()) Flush();
  ASSERT_TRUE(reactor_->Post(Creating("later")).ok());
  Flush();
  EXPECT_FALSE(HasJob("refused"));
  EXPECT_THAT(events_,
              ElementsAre("changed jobs/kept", "created kept", "RESOURCE_EXHAUSTED lost",
                          "RESOURCE_EXHAUSTED refused", "changed jobs/later", "created later"));
}

TEST_F(ReactorTest, FailedStoreEndsTheReactorAndEverythingWaiting) {
  Start();
  store_.set_before_commit([this] {
    reached_.Open();
    gate_.Wait();
    return absl::UnavailableError("fsync failed");
  });
  ASSERT_TRUE(reactor_->Post(Creating("a")).ok());
  reached_.Wait();
  ASSERT_TRUE(reactor_->Post(Creating("b")).ok());
  gate_.Open();
  thread_.join();
  EXPECT_EQ(result_.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(events_, ElementsAre("UNAVAILABLE a", "UNAVAILABLE b", "stopped"));
  EXPECT_EQ(reactor_->Post(Creating("c")).code(), absl::StatusCode::kUnavailable);
}

TEST_F(ReactorTest, StopReleasesWhatWaits) {
  Start();
  HoldCommits();
  ASSERT_TRUE(reactor_->Post(Creating("a")).ok());
  reached_.Wait();
  ASSERT_TRUE(reactor_->Post(Creating("b")).ok());
  stop_ = true;
  gate_.Open();
  thread_.join();
  EXPECT_TRUE(result_.ok());
  EXPECT_THAT(events_, ElementsAre("changed jobs/a", "created a", "UNAVAILABLE b", "stopped"));
}

// The logic's clock; the reactor's goes on by itself. On the reactor's thread alone.
TEST_F(ReactorTest, WhatWaitsBehindASlowCommitIsHeardBeforeSilenceIsJudged) {
  common::ManualClock time;
  Reactor::Options options;
  options.tick_seconds = 0.001;
  reactor_ = std::make_unique<Reactor>(
      &store_, [&] { return std::make_unique<Core>(&time); }, &clock_, options);
  struct Lost : Reactor::Listener {
    void OnEffects(const Core&, const Effects& effects) override {
      for (const v1::Node& node : effects.nodes) lost |= node.state() == v1::Node::LOST;
    }
    bool lost = false;
  } lost;
  reactor_->AddListener(&lost);
  ASSERT_TRUE(reactor_->Load().ok());
  v1::AgentMessage hello;
  hello.set_incarnation(1);
  hello.mutable_register_()->set_node("n0");
  hello.mutable_register_()->set_device("cpu");
  hello.mutable_register_()->set_devices(1);
  v1::AgentMessage beat;
  beat.set_incarnation(1);
  beat.mutable_heartbeat();
  const auto saying = [](const v1::AgentMessage& message) {
    Reactor::Input input;
    input.session = 1;
    input.apply = [message](Core& core, Effects& effects) { core.OnAgent(1, message, effects); };
    input.release = [](const absl::Status&) {};
    return input;
  };
  std::atomic<bool> slow{true};
  store_.set_before_commit([&] {  // of the registration: longer than a node may be silent
    if (!slow.exchange(false)) return absl::OkStatus();
    time.Advance(60);
    EXPECT_TRUE(reactor_->PostUnlimited(saying(beat)).ok());
    for (const double due = clock_.Now() + 0.002; clock_.Now() < due;) {  // a tick is
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(reactor_->PostUnlimited(saying(hello)).ok());
  thread_ = std::thread([this] { result_ = reactor_->Run(stop_); });
  while (slow) std::this_thread::yield();
  Flush();
  Stop();
  EXPECT_FALSE(lost.lost);
}

TEST_F(ReactorTest, EveryLoadBeginsANewTerm) {
  for (int64_t term = 1; term <= 3; ++term) {
    Reactor reactor(&store_, [this] { return std::make_unique<Core>(&clock_); }, &clock_, {});
    struct Terms : Reactor::Listener {
      void OnLoad(const Core& core) override { seen = core.controller_term(); }
      int64_t seen = 0;
    } terms;
    reactor.AddListener(&terms);
    ASSERT_TRUE(reactor.Load().ok());
    EXPECT_EQ(terms.seen, term);
  }
}

}  // namespace
}  // namespace strata::controller
