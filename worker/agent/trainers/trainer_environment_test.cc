#include "worker/agent/trainers/trainer_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;

TEST(TrainerEnvironmentTest, WhatLibrariesNeedPassesAndSecretsDoNot) {
  std::string path = "PATH=/bin", threads = "OMP_NUM_THREADS=2", strata = "STRATA_X=a=b",
              secret = "AWS_SECRET_ACCESS_KEY=s", server = "SSH_AUTH_SOCK=/tmp/a",
              likewise = "MY_STRATA_X=1", bare = "LD_PRELOAD";
  char* own[] = {path.data(),   threads.data(),  strata.data(), secret.data(),
                 server.data(), likewise.data(), bare.data(),   nullptr};
  EXPECT_THAT(TrainerEnvironment(own),
              ElementsAre("PATH=/bin", "OMP_NUM_THREADS=2", "STRATA_X=a=b", "LD_PRELOAD"));
}

TEST(TrainerEnvironmentTest, NoEnvironmentGivesNone) {
  EXPECT_TRUE(TrainerEnvironment(nullptr).empty());
}

}  // namespace
}  // namespace strata::worker
