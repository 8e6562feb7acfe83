#include "worker/agent/machine/job_user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOther[] = "nobody";
constexpr Powers kRoot = {.root = true, .systemd = false};
constexpr Powers kRootWithSystemd = {.root = true, .systemd = true};
constexpr Powers kSomebody = {.root = false, .systemd = true};

// The user's name; empty: the agent's own. With the notice behind it.
std::string Decided(RunAs mode, const Powers& powers, const std::string& owner) {
  const absl::StatusOr<Decision> decision = DecideUser(mode, powers, owner);
  if (!decision.ok()) return absl::StrCat("refused: ", decision.status().message());
  const std::string name = decision->user.has_value() ? decision->user->name : "agent";
  return decision->notice.empty() ? name : absl::StrCat(name, ", ", decision->notice);
}

TEST(DecideUser, TheOwnerWhereSystemdRunsAndTheAgentIsRoot) {
  EXPECT_EQ(Decided(RunAs::kAuto, kRootWithSystemd, kOther), kOther);
  EXPECT_EQ(Decided(RunAs::kUser, kRootWithSystemd, kOther), kOther);
  EXPECT_EQ(Decided(RunAs::kUser, kRoot, kOther), kOther);
}

TEST(DecideUser, ElseTheAgentsUser_WhichIsSaid) {
  EXPECT_EQ(Decided(RunAs::kAuto, kRoot, kOther),
            "agent, its processes run as the agent's user, not as nobody (systemd does not run "
            "here; --run-as=user insists)");
  EXPECT_THAT(Decided(RunAs::kAuto, kSomebody, kOther), HasSubstr("the agent is not root"));
  EXPECT_THAT(Decided(RunAs::kDaemon, kRootWithSystemd, kOther), HasSubstr("--run-as=daemon"));
  EXPECT_EQ(Decided(RunAs::kAuto, kRoot, ""), "agent");
}

TEST(DecideUser, ItsOwnUserNeedsNoWord) {
  const passwd* const own = getpwuid(geteuid());
  if (own == nullptr) GTEST_SKIP() << "this sandbox names no user";
  for (const RunAs mode : {RunAs::kAuto, RunAs::kDaemon}) {
    EXPECT_EQ(Decided(mode, {.root = geteuid() == 0, .systemd = false}, own->pw_name), "agent");
  }
}

TEST(DecideUser, WhoInsistsIsRefusedWhatCannotBe) {
  EXPECT_THAT(Decided(RunAs::kUser, kSomebody, kOther),
              HasSubstr("refused: the agent is not root"));
  EXPECT_THAT(Decided(RunAs::kUser, kRoot, "no-such-user"), HasSubstr("refused: this node knows"));
  EXPECT_THAT(Decided(RunAs::kUser, kRoot, "root"), HasSubstr("refused: no job runs as root"));
  EXPECT_THAT(Decided(RunAs::kUser, kRoot, ""), HasSubstr("refused: nobody is known"));
  // An agent that could run jobs as their owners runs none as root.
  EXPECT_THAT(Decided(RunAs::kAuto, kRootWithSystemd, "no-such-user"),
              HasSubstr("refused: this node knows no user no-such-user"));
  EXPECT_THAT(Decided(RunAs::kAuto, kRootWithSystemd, "root"),
              HasSubstr("refused: no job runs as root"));
  EXPECT_THAT(Decided(RunAs::kAuto, kRootWithSystemd, ""), HasSubstr("refused: nobody is known"));
}

TEST(LaunchCommand, ByItselfOrInAScopeOfSystemd) {
  const JobUser user = {"ann", 1000, 1000, {1000}};
  EXPECT_THAT(LaunchCommand(user, std::nullopt, "/opt/strata-worker"),
              ElementsAre("/opt/strata-worker", "--exec-as", "ann"));
  EXPECT_EQ(
      absl::StrJoin(
          LaunchCommand(user, Scope{"strata-a-3-0", {"MemoryMax=1G", "TasksMax=99"}, true},
                        "/opt/strata-worker"),
          " "),
      "/usr/bin/systemd-run --scope --quiet --collect --slice=strata.slice --unit=strata-a-3-0 "
      "--property=MemoryMax=1G --property=TasksMax=99 -- /opt/strata-worker --exec-as "
      "--private-tmp ann");
}

TEST(NoneInTmp, LooksAtWholeNames) {
  EXPECT_TRUE(NoneInTmp({"/data/tmp", "/tmpfiles", "/var/lib/strata", ""}));
  EXPECT_FALSE(NoneInTmp({"/data", "/tmp/job"}));
  EXPECT_FALSE(NoneInTmp({"/var/tmp"}));
}

// Processes of another user: only root makes them, where there is more than one.
class OtherUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
    const absl::StatusOr<JobUser> user = FindUser(kOther);
    ASSERT_TRUE(user.ok()) << user.status();
    user_ = *user;
    const pid_t child = fork();
    if (child == 0) _exit(setresuid(user_->uid, user_->uid, user_->uid) == 0 ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) GTEST_SKIP() << "this sandbox knows one user only";
    char folder[] = "/tmp/job-user-XXXXXX";  // which others can reach
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    chmod(folder, 0711);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    std::filesystem::remove_all(folder_);
  }

  // What the program says that is run as the user.
  std::string Output(const std::vector<std::string>& command) {
    const std::string path = folder_ + "/output";
    const pid_t child = fork();
    if (child == 0) {
      const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      _exit(ExecAs(command));
    }
    waitpid(child, &status_, 0);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::optional<JobUser> user_;
  std::string folder_;
  int status_ = 0;
};

TEST_F(OtherUserTest, AProgramRunsAsTheUserAndCannotGoBack) {
  EXPECT_EQ(Output({kOther, "/usr/bin/id", "id", "-un"}), "nobody\n");
  EXPECT_EQ(status_, 0);
  const std::string text = Output({kOther, "/bin/cat", "cat", "/proc/self/status"});
  const std::string id = absl::StrCat(user_->uid);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("Uid:\t", id, "\t", id, "\t", id, "\t", id)));
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(text, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(text, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(Output({kOther, "/usr/bin/env", "env"}), HasSubstr("USER=nobody\n"));
}

TEST_F(OtherUserTest, AScopesTmpIsItsOwn) {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWNS) == 0 ? 0 : 1);
  waitpid(child, &status_, 0);
  if (status_ != 0) GTEST_SKIP() << "this sandbox forbids it";
  EXPECT_THAT(Output({kOther, "/bin/ls", "ls", "/tmp"}), HasSubstr("job-user-"));
  EXPECT_EQ(Output({"--private-tmp", kOther, "/bin/ls", "ls", "-A", "/tmp", "/var/tmp"}),
            "/tmp:\n\n/var/tmp:\n");
  EXPECT_EQ(Output({"--private-tmp", kOther, "/bin/sh", "sh", "-c",
                    "id -un; touch /tmp/own && echo made"}),
            "nobody\nmade\n");
  EXPECT_FALSE(std::filesystem::exists("/tmp/own"));
}

TEST_F(OtherUserTest, TheProgramMayLieWhereTheUserCannotLook) {
  const std::string hidden = folder_ + "/hidden";
  mkdir(hidden.c_str(), 0700);
  std::filesystem::copy_file("/usr/bin/id", hidden + "/id");
  EXPECT_EQ(Output({kOther, hidden + "/id", "id", "-un"}), "nobody\n");
}

// A program in the place of systemd-run, which is not here: it tells what it was asked for, and
// does what a scope does to a process, which is to become the command.
TEST_F(OtherUserTest, UnderSystemdTheProgramIsTheProcessThatWasStarted) {
  const std::string fake = folder_ + "/systemd-run";
  std::ofstream(fake) << "#!/bin/bash\necho \"$@\" > " << folder_ << "/asked\n"
                      << "while [[ $1 != -- ]]; do shift; done\nshift\nexec \"$@\"\n";
  chmod(fake.c_str(), 0755);
  const char* const own = std::getenv("STRATA_WORKER");
  ASSERT_NE(own, nullptr);
  std::vector<std::string> command =
      LaunchCommand(*user_, Scope{"strata-a-3-0", {"TasksMax=99"}}, own, fake);
  command.insert(command.end(), {"/bin/bash", "trainer", "-c", "id -un >&4; echo $$ >&4"});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 4);  // inherited, as a trainer's socket and progress file are
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(1);
  }
  close(ends[1]);
  std::string said;
  char piece[256];
  for (ssize_t size; (size = read(ends[0], piece, sizeof(piece))) > 0;) {
    said.append(piece, static_cast<size_t>(size));
  }
  close(ends[0]);
  waitpid(child, &status_, 0);
  EXPECT_EQ(said, absl::StrCat("nobody\n", child, "\n")) << "it is our child, by our number";
  std::string asked;
  std::ifstream in(folder_ + "/asked");
  std::getline(in, asked);
  EXPECT_THAT(asked, HasSubstr("--scope --quiet --collect --slice=strata.slice "
                               "--unit=strata-a-3-0 --property=TasksMax=99 -- "));
}

TEST_F(OtherUserTest, WhatCannotBeIsSaid) {
  EXPECT_THAT(Output({"no-such-user", "/usr/bin/id", "id"}), HasSubstr("no user no-such-user"));
  EXPECT_EQ(WEXITSTATUS(status_), 126);
  EXPECT_THAT(Output({"root", "/usr/bin/id", "id"}), HasSubstr("no job runs as root"));
  EXPECT_THAT(Output({kOther, "/no/such/program", "x"}), HasSubstr("/no/such/program"));
}

TEST_F(OtherUserTest, FilesAreMadeAndCheckedAsTheUsers) {
  const std::string theirs = folder_ + "/theirs", ours = folder_ + "/ours";
  mkdir(theirs.c_str(), 0700);
  ASSERT_EQ(chown(theirs.c_str(), user_->uid, user_->gid), 0);
  mkdir(ours.c_str(), 0700);
  {
    const AsUser as(user_);
    const int made = open((theirs + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_GE(made, 0);
    close(made);
    EXPECT_LT(open((ours + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 0);
    EXPECT_EQ(errno, EACCES);
  }
  struct stat status {};
  ASSERT_EQ(stat((theirs + "/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, user_->uid);
  EXPECT_EQ(status.st_gid, user_->gid);
  const int own = open((ours + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_GE(own, 0) << "the agent is itself again";
  close(own);
}

}  // namespace
}  // namespace strata::worker
