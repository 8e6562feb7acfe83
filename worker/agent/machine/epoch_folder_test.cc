#include "worker/agent/machine/epoch_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(EpochFolderTest, ALaterStartTakesThePlaceOfAnEarlierOneForGood) {
  std::string directory = testing::TempDir() + "/epochs-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  ASSERT_TRUE(MakeEpochFolder(directory, 1).ok());
  EXPECT_TRUE(FindEpochFolder(directory, 1).ok());
  ASSERT_TRUE(MakeEpochFolder(directory, 2).ok());
  // Epoch 1 is told to start late, by words that were long on their way.
  EXPECT_TRUE(absl::IsFailedPrecondition(FindEpochFolder(directory, 1).status()));
  EXPECT_FALSE(std::filesystem::exists(directory + "/.epoch-1"));
  EXPECT_EQ(FindEpochFolder(directory, 2).value(), directory + "/.epoch-2");
  EXPECT_EQ(NewestEpoch(directory), 2);
}

}  // namespace
}  // namespace strata::worker
