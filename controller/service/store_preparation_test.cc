#include "controller/service/store_preparation.h"

#include <filesystem>
#include <string>

#include "controller/logic/core.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "controller/store/in_memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class StorePreparationTest : public testing::Test {
 protected:
  StorePreparationTest() {
    std::filesystem::remove_all(directory_);
    const common::MonotonicClock clock{};
    Core core(&clock);
    const auto loaded = core.Load({}, 0);
    EXPECT_TRUE(store_.Commit(loaded->writes).ok());
  }
  absl::Status Prepare(const StorePreparation& preparation) {
    return PrepareStore(store_, directory_, preparation, common::SeededEntropy(3));
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto records = store_.Load();
    for (const Write& record : *records) keys.push_back(record.key);
    return keys;
  }

  const std::string directory_ = testing::TempDir() + "/store_preparation";
  InMemoryStore store_;
};

TEST_F(StorePreparationTest, ExactlyWhatIsNamedIsDiscarded) {
  ASSERT_TRUE(store_.Commit({{{"jobs", "jobs/a", "x"}, {"jobs", "jobs/b", "x"}}}).ok());
  ASSERT_TRUE(Prepare({.discard = {"jobs/jobs/a"}}).ok());
  EXPECT_THAT(Keys(), UnorderedElementsAre("controller_term", "identity", "jobs/b"));
}

TEST_F(StorePreparationTest, WhatIsNotThereDiscardsNothing) {
  ASSERT_TRUE(store_.Commit({{{"jobs", "jobs/a", "x"}}}).ok());
  const absl::Status status = Prepare({.discard = {"jobs/jobs/a", "jobs/a"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("jobs/a"));
  EXPECT_THAT(Keys(), UnorderedElementsAre("controller_term", "identity", "jobs/a"));
}

TEST_F(StorePreparationTest, ABackupWithARecordThatCannotBeReadIsRefusedUntilItIsDiscarded) {
  ASSERT_TRUE(store_.Commit({{{"jobs", "jobs/a", "\xff"}}}).ok());
  EXPECT_EQ(Prepare({.restored = true}).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Prepare({.discard = {"jobs/jobs/a"}, .restored = true}).ok());
  EXPECT_THAT(Keys(), UnorderedElementsAre("controller_term", "identity", "resource_version"));
}

TEST_F(StorePreparationTest, AnEmptyStoreIsNoBackupAndNoneWhereJobsWere) {
  InMemoryStore empty;
  EXPECT_EQ(PrepareStore(empty, directory_, {.restored = true}, common::SeededEntropy(3)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(PrepareStore(empty, directory_, {}, common::SeededEntropy(3)).ok());
  std::filesystem::create_directories(directory_ + "/jobs/a");
  EXPECT_EQ(PrepareStore(empty, directory_, {}, common::SeededEntropy(3)).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(StorePreparationTest, ARecordThatCannotBeReadRefusesTheStartUntilItIsDiscarded) {
  std::filesystem::create_directories(directory_);
  { const RunningController first(directory_); }
  {
    auto store = Store::Open(directory_);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->Commit({{{"nodes", "nodes/n0", "\xff\xff"}}}).ok());
  }
  const common::MonotonicClock clock{};
  Controller::Options options;
  options.directory = directory_;
  const absl::Status refused = Controller::Start(options, &clock).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("nodes/nodes/n0"));
  options.preparation.discard = {"nodes/nodes/n0"};
  RunningController again(directory_, options);
  Deadline context;
  v1::Cluster cluster;
  EXPECT_TRUE(again.cluster->GetCluster(&context, {}, &cluster).ok());
  EXPECT_EQ(cluster.uid().size(), 36u);
}

}  // namespace
}  // namespace strata::controller
