#include "worker/trainer/control.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "worker/shared/frame.h"
#include "worker/trainer/commit_mailbox.h"

namespace strata::worker {
namespace {

// The agent's end, as plain blocking calls.
class Agent {
 public:
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
    ASSERT_TRUE(AppendFrame(command, &frame).ok());
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
  FrameDecoder decoder_;
};

TEST(ControlTest, ATaskArrivesAndEventsGoOut) {
  Agent agent;
  Control control(agent.trainer_socket(), [](const v1::CommitCheckpoint&) {});
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
  Control control(agent.trainer_socket(), [](const v1::CommitCheckpoint&) {});
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
  CommitMailbox mailbox;
  Control control(agent.trainer_socket(),
                  [&](const v1::CommitCheckpoint& word) { mailbox.Deliver(word); });
  mailbox.SetReceiver([&](const v1::CommitCheckpoint& word) {
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
  Control control(agent.trainer_socket(), [](const v1::CommitCheckpoint&) {});
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
  Control control(agent.trainer_socket(), [](const v1::CommitCheckpoint&) {});
  agent.Write("\xff\xff\xff\xff");
  EXPECT_EQ(control.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST(ControlTest, AProcessThatDoesNotNoticeTheEndExits) {
  const pid_t child = fork();
  if (child == 0) {
    Agent agent;
    Control control(agent.trainer_socket(), [](const v1::CommitCheckpoint&) {});
    agent.Close();
    for (;;) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), Control::kAgentGoneExit);
}

}  // namespace
}  // namespace strata::worker
