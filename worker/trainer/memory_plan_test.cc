#include "worker/trainer/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

v1::TrainerTask TaskWith(const std::string& directory) {
  v1::TrainerTask task;
  task.set_kind(v1::TrainerTask::KIND_TRAIN);
  task.set_ranks_on_node(2);
  v1::SsdPath& path = *task.mutable_job()->mutable_memory()->add_ssd();
  path.set_path(directory);
  path.set_size(64 << 20);
  return task;
}

TEST(OpenPaths, MakesDirectoriesAndGivesEachRankItsPart) {
  const std::string directory = absl::StrCat(testing::TempDir(), "paths/a/b");
  const auto options = OpenPaths(TaskWith(directory));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(std::filesystem::is_directory(directory));
  ASSERT_EQ(options->paths.size(), 1);
  EXPECT_EQ(options->paths[0].limit_bytes, 32 << 20);
  EXPECT_EQ(options->queue_depth, memory::SsdOptions().queue_depth);
}

TEST(OpenPaths, OfMeasuredDisksCutsRequestsAsTheyWereFastest) {
  const std::string directory = absl::StrCat(testing::TempDir(), "measured");
  v1::TrainerTask task = TaskWith(directory);
  v1::DiskProfile& disk = *task.mutable_profile()->add_disks();
  disk.set_directory(testing::TempDir().substr(0, testing::TempDir().size() - 1));
  for (const int64_t depth : {4, 16, 64}) {
    v1::DiskRate& rate = *disk.add_rates();
    rate.set_request_bytes(depth << 16);
    rate.set_depth(depth);
    rate.set_mixed(depth == 16 ? 3e9 : 2e9);
  }
  const auto options = OpenPaths(task);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->queue_depth, 16);
  EXPECT_EQ(options->request_bytes, 16 << 16);
  task.mutable_profile()->mutable_disks(0)->set_directory("/elsewhere");
  EXPECT_EQ(OpenPaths(task)->queue_depth, memory::SsdOptions().queue_depth);
}

TEST(OpenPaths, ADirectoryThatCannotBeMade_IsNamedWithWhatToDo) {
  EXPECT_THAT(std::string(OpenPaths(TaskWith("/proc/strata")).status().message()),
              testing::HasSubstr("/proc/strata: cannot be created"));
}

}  // namespace
}  // namespace strata::worker
