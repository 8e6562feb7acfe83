#include "worker/agent/cluster/doorway.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/shared/unix_socket.h"

namespace strata::worker {
namespace {

constexpr uid_t kNobody = 65534;

// A process of `user` says that at `path`; exit status 0: it was heard or told something.
pid_t SpeakAs(uid_t user, const std::string& path, const v1::TrainerEvent& event) {
  const pid_t child = fork();
  if (child != 0) return child;
  signal(SIGPIPE, SIG_IGN);
  if (user != geteuid() && setuid(user) != 0) _exit(3);
  const absl::StatusOr<int> socket = ConnectTo(path);
  if (!socket.ok()) _exit(2);
  static_cast<void>(FrameSender(*socket).Send(event));
  pollfd waiting{*socket, POLLIN, 0};
  poll(&waiting, 1, 10'000);
  char byte = 0;
  _exit(read(*socket, &byte, 1) == 1 ? 0 : 1);  // 1: the end, without a word
}

class DoorwayTest : public ::testing::Test {
 protected:
  // How a process of `user` fares that says hello; and how often the doorway heard one.
  int HelloFrom(uid_t user) {
    v1::TrainerEvent event;
    event.mutable_hello()->set_job("jobs/a");
    return WordFrom(user, event);
  }
  int WordFrom(uid_t user, const v1::TrainerEvent& event) {
    char folder[] = "/tmp/door-XXXXXX";  // everybody can reach it, unlike the test's own
    EXPECT_NE(mkdtemp(folder), nullptr);
    chmod(folder, 0755);
    const std::string path = absl::StrCat(folder, "/agent.sock");
    const auto on_hello = [this](const v1::TrainerHello&, pid_t, Descriptor&, FrameReceiver&) {
      ++heard_;
      return false;  // it is told to end
    };
    const auto on_stop = [this](Descriptor socket) {
      ++stopped_;
      v1::TrainerCommand answer;
      answer.mutable_agent_stopped();
      EXPECT_TRUE(FrameSender(socket.get()).Send(answer).ok());
    };
    const auto doorway = Doorway::Open(path, guests_, on_hello, on_stop, &clock_);
    EXPECT_TRUE(doorway.ok()) << doorway.status();
    chmod(path.c_str(), 0777);  // as if somebody had opened what its mode closes
    const pid_t child = SpeakAs(user, path, event);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      std::vector<pollfd> waiting;
      (*doorway)->AddTo(waiting);
      poll(waiting.data(), waiting.size(), 20);
      (*doorway)->Handle(waiting.data());
    }
    unlink(path.c_str());
    rmdir(folder);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  const common::MonotonicClock clock_{};
  Doorway::Guests guests_ = Doorway::Guests::kOwnUser;
  int heard_ = 0, stopped_ = 0;
};

TEST_F(DoorwayTest, AProcessOfTheAgentsUserIsHeard) {
  EXPECT_EQ(HelloFrom(geteuid()), 0);
  EXPECT_EQ(heard_, 1);
}

TEST_F(DoorwayTest, WhoeverAsksForTheAgentsEndCanBeAnswered) {
  v1::TrainerEvent event;
  event.mutable_stop_agent();
  EXPECT_EQ(WordFrom(geteuid(), event), 0);
  EXPECT_EQ(stopped_, 1);
  EXPECT_EQ(heard_, 0);
}

TEST_F(DoorwayTest, AProcessOfAnotherUserIsTurnedAwayUnheard) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const int status = HelloFrom(kNobody);
  if (status == 3) GTEST_SKIP() << "this sandbox knows one user only";
  EXPECT_EQ(status, 1);
  EXPECT_EQ(heard_, 0);
}

// Where jobs run as their owners their trainers come back; by their number it is told whose they
// are. They are not to stop the agent of others.
TEST_F(DoorwayTest, TrainersOfOtherUsersAreHeardWhereTheyMayBe_AndNothingElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  guests_ = Doorway::Guests::kAllUsers;
  const int status = HelloFrom(kNobody);
  if (status == 3) GTEST_SKIP() << "this sandbox knows one user only";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(heard_, 1);
  v1::TrainerEvent event;
  event.mutable_stop_agent();
  EXPECT_EQ(WordFrom(kNobody, event), 1);
  EXPECT_EQ(stopped_, 0);
}

}  // namespace
}  // namespace strata::worker
