#include "worker/trainer/control.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "protocol/frames.h"
#include "worker/shared/unix_socket.h"

namespace strata::worker {
namespace {

// The agent's end, as plain blocking calls.
class Agent {
 public:
  explicit Agent(int socket) : pair_{socket, -1} {}
  Agent() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_), 0); }
  ~Agent() { Close(); }

  int trainer_socket() const { return pair_[1]; }
  void Close() {
    if (pair_[0] >= 0) close(pair_[0]);
    pair_[0] = -1;
  }
  void Write(const std::string& bytes) {
    ASSERT_EQ(write(pair_[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void Send(const v1::TrainerCommand& command) {
    std::string frame;
    ASSERT_TRUE(protocol::AppendFrame(command, &frame).ok());
    Write(frame);
  }
  v1::TrainerEvent Receive() {
    v1::TrainerEvent event;
    char bytes[4096];
    for (;;) {
      const absl::StatusOr<bool> whole = decoder_.Next(&event);
      EXPECT_TRUE(whole.ok());
      if (!whole.ok() || *whole) return event;
      const ssize_t size = read(pair_[0], bytes, sizeof(bytes));
      EXPECT_GT(size, 0);
      if (size <= 0) return event;
      decoder_.Add(bytes, static_cast<size_t>(size));
    }
  }

 private:
  int pair_[2] = {-1, -1};
  protocol::FrameDecoder decoder_;
};

TEST(ControlTest, ATaskArrivesAndEventsGoOut) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  v1::TrainerCommand command;
  command.mutable_task()->set_rank(3);
  agent.Send(command);
  const absl::StatusOr<v1::TrainerCommand> found = control.Next();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->task().rank(), 3);
  control.Notice(v1::Notice::SEVERITY_INFO, "text");
  EXPECT_EQ(agent.Receive().notice().text(), "text");
}

TEST(ControlTest, AStopIsAnsweredWhileTheLoopIsBusy) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  ASSERT_TRUE(control.gate().Enter(7));
  v1::TrainerCommand command;
  command.mutable_stop();
  agent.Send(command);
  EXPECT_EQ(agent.Receive().stopping().step(), 7);
  command.mutable_stop_after()->set_step(8);
  agent.Send(command);
  EXPECT_TRUE(control.gate().Enter(8));
  EXPECT_FALSE(control.gate().Enter(9));
}

TEST(ControlTest, CommitsReachTheMailbox) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  mail.commits.SetReceiver([&](const v1::CommitCheckpoint& word) {
    v1::TrainerEvent event;
    event.mutable_committed()->set_step(word.step());
    control.Send(event);
  });
  v1::TrainerCommand command;
  command.mutable_commit()->set_step(20);
  agent.Send(command);
  EXPECT_EQ(agent.Receive().committed().step(), 20);
}

TEST(ControlTest, TheEndOfTheAgentReleasesWhoeverWaits) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  std::thread end([&] { agent.Close(); });
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(control.gate().Enter(1));
  bool cancelled = false;
  control.SetCancel([&](const absl::Status& status) { cancelled = !status.ok(); });
  EXPECT_TRUE(cancelled);
  control.SetCancel(nullptr);
  end.join();
}

TEST(ControlTest, BytesThatAreNoCommandCountAsTheEnd) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  agent.Write("\xff\xff\xff\xff");
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST(ControlTest, AProcessThatDoesNotNoticeTheEndExits) {
  const pid_t child = fork();
  if (child == 0) {
    Agent agent;
    CheckpointMail mail;
    Control control(agent.trainer_socket(), &mail);
    agent.Close();
    for (;;) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), Control::kAgentGoneExit);
}

// An agent that listens where trainers with a lease look for one.
class LeaseTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/leaseXXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    path_ = folder + "/agent.sock";
  }
  v1::TrainerCommand Task(double lease_seconds) {
    v1::TrainerCommand command;
    v1::Controlled& controlled = *command.mutable_task()->mutable_controlled();
    controlled.set_job("jobs/a");
    controlled.set_epoch(7);
    controlled.mutable_lease()->set_seconds(lease_seconds);
    controlled.mutable_lease()->set_socket(path_);
    command.mutable_task()->set_rank(2);
    return command;
  }
  static v1::TrainerCommand Acknowledge(uint64_t sequence) {
    v1::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(sequence);
    return command;
  }
  // The successor's end of the connection that the trainer makes.
  static int Accept(int listener) {
    pollfd waiting{listener, POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 30'000), 1);
    return accept(listener, nullptr, nullptr);
  }
  std::string path_;
};

TEST_F(LeaseTest, TheTrainerGoesOnAloneAndTellsTheNextAgentWhatTheFirstDidNotGet) {
  Agent first;
  CheckpointMail mail;
  Control control(first.trainer_socket(), &mail);
  first.Send(Task(60));
  ASSERT_TRUE(control.Next().ok());
  control.Notice(v1::Notice::SEVERITY_INFO, "one");
  EXPECT_EQ(first.Receive().sequence(), 1u);
  control.Notice(v1::Notice::SEVERITY_INFO, "two");
  EXPECT_EQ(first.Receive().sequence(), 2u);
  first.Send(Acknowledge(1));
  v1::TrainerCommand stop;
  stop.mutable_stop();
  first.Send(stop);  // its answer comes after the acknowledgement was read
  EXPECT_TRUE(first.Receive().has_stopping());
  first.Close();
  control.Notice(v1::Notice::SEVERITY_INFO, "three");

  const absl::StatusOr<int> listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  Agent second(Accept(*listener));
  const v1::TrainerEvent hello = second.Receive();
  EXPECT_EQ(hello.hello().job(), "jobs/a");
  EXPECT_EQ(hello.hello().epoch(), 7);
  EXPECT_EQ(hello.hello().rank(), 2);
  EXPECT_EQ(second.Receive().notice().text(), "two");
  EXPECT_TRUE(second.Receive().has_stopping());
  EXPECT_EQ(second.Receive().notice().text(), "three");
  second.Send(Acknowledge(4));  // the control is drained, and may end
  close(*listener);
}

TEST_F(LeaseTest, SilenceForTheLeaseIsTheEnd) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  agent.Send(Task(0.2));
  ASSERT_TRUE(control.Next().ok());
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LeaseTest, TheAgentSaysHowLongTheLeaseIsFromNowOn) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  agent.Send(Task(3600));
  ASSERT_TRUE(control.Next().ok());
  v1::TrainerCommand acknowledge = Acknowledge(0);
  acknowledge.mutable_acknowledge()->set_lease_seconds(0.2);
  agent.Send(acknowledge);
  agent.Send(Acknowledge(0));  // which says nothing about it
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LeaseTest, AStuckTrainerExitsWhenItsLeaseIsOver) {
  const pid_t child = fork();
  if (child == 0) {
    Agent agent;
    CheckpointMail mail;
    Control control(agent.trainer_socket(), &mail);
    agent.Send(Task(0.2));
    agent.Close();
    for (;;) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), Control::kAgentGoneExit);
}

TEST_F(LeaseTest, TheAgentsOrderToEndIsTheEndAtOnce) {
  Agent agent;
  CheckpointMail mail;
  Control control(agent.trainer_socket(), &mail);
  agent.Send(Task(60));
  ASSERT_TRUE(control.Next().ok());
  v1::TrainerCommand command;
  command.mutable_end()->set_reason("fenced");
  agent.Send(command);
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace strata::worker
