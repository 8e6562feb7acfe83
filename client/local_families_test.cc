#include "client/local_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

class LocalFamilies : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }

  absl::Status Keep(const std::string& layout, double ratio, double wall = 1) {
    return KeepComparison(profile_, {"w", layout}, {.ratio = ratio, .steps = 16}, wall);
  }

  const std::string folder_ = testing::TempDir() + "local-families";
  const std::string profile_ = folder_ + "/made/host.textproto";
};

TEST_F(LocalFamilies, StandBesideTheProfileAndAreWhatWasKept) {
  EXPECT_EQ(FamiliesPath(profile_), folder_ + "/made/host.families.textproto");
  EXPECT_EQ(FamiliesPath("p"), "p.families.textproto");
  ASSERT_TRUE(LoadFamilies(profile_).ok());
  EXPECT_TRUE(LoadFamilies(profile_)->empty());
  ASSERT_TRUE(Keep("data 2", 4).ok());
  ASSERT_TRUE(Keep("data 2", 1).ok());
  ASSERT_TRUE(Keep("tensor 2", 1.25).ok());
  const auto families = LoadFamilies(profile_);
  ASSERT_EQ(families->size(), 2);
  const auto correction = planner::CorrectionOf({"w", "data 2"}, *families);
  ASSERT_TRUE(correction.has_value());
  EXPECT_EQ(correction->ratio, 2);
  EXPECT_EQ(correction->steps, 32);
  EXPECT_TRUE(correction->of_layout);
}

TEST_F(LocalFamilies, RunsAtTheSameTimeLoseNothing) {
  std::vector<std::thread> runs;
  for (int run = 0; run < 8; ++run) {
    runs.emplace_back([&, run] {
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(Keep(absl::StrCat(run), 2).ok());
    });
  }
  for (std::thread& run : runs) run.join();
  const auto families = LoadFamilies(profile_);
  ASSERT_TRUE(families.ok());
  ASSERT_EQ(families->size(), 8);
  for (const v1::PlanFamily& family : *families) EXPECT_EQ(family.steps(), 64);
}

TEST_F(LocalFamilies, AreBoundedAndTheOldestMakesRoom) {
  for (size_t i = 0; i <= kMostLocalFamilies; ++i) {
    ASSERT_TRUE(Keep(absl::StrCat(i), 1, i == 3 ? 1 : 100.0 + static_cast<double>(i)).ok());
  }
  const auto families = LoadFamilies(profile_);
  EXPECT_EQ(static_cast<size_t>(families->size()), kMostLocalFamilies);
  for (const v1::PlanFamily& family : *families) EXPECT_NE(family.layout(), "3");
}

TEST_F(LocalFamilies, AFileThatHoldsNoneIsToldAndBegunAnew) {
  ASSERT_TRUE(Keep("data 2", 1).ok());
  std::ofstream(FamiliesPath(profile_)) << "no: families";
  const absl::Status told = LoadFamilies(profile_).status();
  EXPECT_THAT(std::string(told.message()), HasSubstr("families.textproto: holds no families"));
  ASSERT_TRUE(Keep("data 4", 1).ok());
  EXPECT_EQ(LoadFamilies(profile_)->size(), 1);
}

TEST_F(LocalFamilies, WhereTheyCannotBeWrittenIsAnErrorWithThePath) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "";
  const absl::Status status =
      KeepComparison(folder_ + "/file/host.textproto", {"w", "l"}, {.ratio = 1, .steps = 16}, 1);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/file/host.families.textproto"));
}

TEST(Merged, TheFirstIsBelievedOfWhatBothKnow) {
  planner::LearnedFamilies own, cluster;
  const auto add = [](planner::LearnedFamilies& to, const char* layout, double ratio) {
    v1::PlanFamily& family = *to.Add();
    family.set_workload("w");
    family.set_layout(layout);
    family.set_ratio(ratio);
  };
  add(own, "data 2", 1);
  add(cluster, "data 2", 9);
  add(cluster, "tensor 2", 3);
  const planner::LearnedFamilies merged = Merged(own, cluster);
  ASSERT_EQ(merged.size(), 2);
  EXPECT_EQ(merged[0].ratio(), 1);
  EXPECT_EQ(merged[1].ratio(), 3);
}

}  // namespace
}  // namespace strata::client
