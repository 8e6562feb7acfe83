#include "worker/agent/machine/process_stack.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "gtest/gtest.h"

namespace strata::worker {

// Not inlined and not the last thing that its caller does: a frame of its own.
__attribute__((noinline)) int StandStillForever(int ready, volatile int* never) {
  const char byte = 1;
  if (write(ready, &byte, 1) != 1) return 1;
  while (*never == 0) pause();
  return *never;
}

namespace {

using ::testing::HasSubstr;

class StackOfChild : public ::testing::Test {
 protected:
  StackOfChild() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    child_ = fork();
    volatile int never = 0;
    if (child_ == 0) _exit(StandStillForever(ready[1], &never) + 1);
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~StackOfChild() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  char StateOfChild() const {
    int status = 0;
    return waitpid(child_, &status, WNOHANG | WUNTRACED) == child_ && WIFSTOPPED(status) ? 'T'
                                                                                         : 'R';
  }

  pid_t child_ = -1;
};

TEST_F(StackOfChild, NamesTheFunctionsThatItIsIn) {
  const auto stack = DescribeStack(child_);
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_THAT(*stack, HasSubstr("\n  strata::worker::StandStillForever\n"));
  EXPECT_EQ(kill(child_, 0), 0);
  EXPECT_EQ(StateOfChild(), 'R');  // it goes on
}

TEST_F(StackOfChild, OneThatIsStoppedIsReadAndStaysStopped) {
  ASSERT_EQ(kill(child_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, WUNTRACED), child_);
  const auto stack = DescribeStack(child_);
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_THAT(*stack, HasSubstr("StandStillForever"));
  EXPECT_EQ(waitpid(child_, &status, WNOHANG | WCONTINUED), 0);  // nobody continued it
}

TEST(StackTest, AProcessThatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(DescribeStack(-1).status()));
}

// Programs that play the reader.
TEST(StackTest, AReaderThatDoesNotAnswerIsEndedInTime) {
  const std::string silent = testing::TempDir() + "/silent";
  FILE* script = fopen(silent.c_str(), "w");
  fputs("#!/bin/sh\nexec sleep 1000\n", script);
  fclose(script);
  ASSERT_EQ(chmod(silent.c_str(), 0755), 0);
  EXPECT_EQ(ReadStack(getpid(), silent, 0.1),
            "(no stack: its threads could not be stopped in time)");
}

TEST(StackTest, WhatIsTooLongEndsWithAWholeLine) {
  const std::string loud = testing::TempDir() + "/loud";
  FILE* script = fopen(loud.c_str(), "w");
  fputs("#!/bin/sh\nwhile echo a line; do :; done\n", script);
  fclose(script);
  ASSERT_EQ(chmod(loud.c_str(), 0755), 0);
  const std::string text = ReadStack(getpid(), loud, 60);
  EXPECT_LE(text.size(), kMostStackBytes);
  EXPECT_GT(text.size(), kMostStackBytes - 10);
  EXPECT_THAT(text, ::testing::EndsWith("a line\n"));
}

TEST(StackTest, WithoutAReaderThereIsNoStack) {
  EXPECT_EQ(ReadStack(getpid(), "", 1), "");
  EXPECT_THAT(ReadStack(getpid(), "/no/such/program", 1), HasSubstr("no stack: No such file"));
}

}  // namespace
}  // namespace strata::worker
