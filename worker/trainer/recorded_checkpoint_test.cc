#include "worker/trainer/recorded_checkpoint.h"

#include <filesystem>
#include <string>

#include "checkpoint/testing.h"
#include "common/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordedCheckpointTest : public ::testing::Test {
 protected:
  RecordedCheckpointTest() {
    for (const int64_t step : {20, 40}) {
      EXPECT_TRUE(checkpoint::WriteCheckpoint(&files_, folder_.path(), 3, step, 2).ok());
    }
    recorded_.set_epoch(3);
    recorded_.set_step(40);
    recorded_.set_manifest_digest(common::DigestOf(checkpoint::ReadFile(Path("manifest.json"))));
  }
  std::string Path(const std::string& name) const {
    return folder_.path() + "/step-00000040/" + name;
  }
  absl::Status Open() const { return OpenRecorded(folder_.path(), recorded_).status(); }
  // Opened, and all of it read.
  absl::Status Read() const {
    const auto found = OpenRecorded(folder_.path(), recorded_);
    if (!found.ok()) return found.status();
    for (const checkpoint::ManifestTensor& tensor : (*found)->manifest().tensors) {
      const auto& logical = tensor.tensor;
      int64_t count = 1;
      for (const int64_t extent : logical.shape) count *= extent;
      std::string bytes(static_cast<size_t>(count) * 8, '\0');
      const absl::Status read =
          (*found)->ReadRangeBytes(logical.name, logical.state, 0, count, bytes.data());
      if (!read.ok()) return WithProblem(folder_.path(), recorded_, read);
    }
    return absl::OkStatus();
  }
  void ExpectDamaged(const absl::Status& status, const std::string& what) const {
    const auto problem = ProblemOf(status);
    ASSERT_TRUE(problem.has_value()) << status;
    EXPECT_EQ(problem->epoch(), 3);
    EXPECT_EQ(problem->step(), 40);
    EXPECT_FALSE(problem->may_pass());
    EXPECT_THAT(problem->older_steps(), ElementsAre(20));
    EXPECT_THAT(problem->what(), HasSubstr(what));
  }

  const checkpoint::TemporaryFolder folder_;
  checkpoint::FaultyFileSystem files_;  // fails nothing; spares the real syncs
  v1::RecordedCheckpoint recorded_;
};

TEST_F(RecordedCheckpointTest, TheRecordedOneIsOpened) { EXPECT_TRUE(Read().ok()) << Read(); }

TEST_F(RecordedCheckpointTest, AFlippedBitIsFoundAndItsFileNamed) {
  std::string bytes = checkpoint::ReadFile(Path("rank-1.safetensors"));
  bytes[bytes.size() - 3] ^= 1;
  checkpoint::WriteFile(Path("rank-1.safetensors"), bytes);
  ExpectDamaged(Read(), "step-00000040/rank-1.safetensors: digest");
}

TEST_F(RecordedCheckpointTest, ATruncatedFileIsFoundBeforeAnythingIsRead) {
  fs::resize_file(Path("rank-0.safetensors"), 100);
  ExpectDamaged(Open(), "step-00000040/rank-0.safetensors: has 100 bytes");
}

TEST_F(RecordedCheckpointTest, AMissingFileIsDamage) {
  fs::remove(Path("rank-0.safetensors"));
  ExpectDamaged(Open(), "step-00000040/rank-0.safetensors: is missing");
}

TEST_F(RecordedCheckpointTest, AManifestThatIsMissingOrChangedIsDamage) {
  const std::string text = checkpoint::ReadFile(Path("manifest.json"));
  for (size_t at = 0; at < text.size(); at += 97) {
    std::string flipped = text;
    flipped[at] ^= 0x10;
    checkpoint::WriteFile(Path("manifest.json"), flipped);
    ExpectDamaged(Open(), "manifest.json: ");
  }
  fs::remove(Path("manifest.json"));
  ExpectDamaged(Open(), "manifest.json: is missing");
}

TEST_F(RecordedCheckpointTest, AManifestOfAnotherHistoryIsNotTheRecordedOne) {
  recorded_.set_manifest_digest("another");
  ExpectDamaged(Open(), "manifest.json: is not the one that the controller recorded");
}

TEST_F(RecordedCheckpointTest, AFolderThatIsMissingBesideOthersIsDamage) {
  fs::remove_all(folder_.path() + "/step-00000040");
  ExpectDamaged(Open(), "step-00000040: is missing");
  fs::rename(folder_.path() + "/step-00000020", folder_.path() + "/.step-00000020.damaged");
  ASSERT_TRUE(ProblemOf(Open()).has_value());
  EXPECT_THAT(ProblemOf(Open())->older_steps(), IsEmpty());
}

// An unmounted disk takes away all of them: that is no reason to begin anew.
TEST_F(RecordedCheckpointTest, WhereNoCheckpointIsLeftAtAllItIsNotTheCheckpointsFault) {
  fs::remove_all(folder_.path() + "/step-00000040");
  fs::remove_all(folder_.path() + "/step-00000020");
  EXPECT_TRUE(absl::IsNotFound(Open()));
  EXPECT_FALSE(ProblemOf(Open()).has_value());
  fs::remove_all(folder_.path());
  EXPECT_FALSE(ProblemOf(Open()).has_value());
}

TEST_F(RecordedCheckpointTest, WhatTheStorageFailedToReadMayPass) {
  const absl::Status failed = checkpoint::StatusFromErrno(EIO, Path("rank-0.safetensors"), "read");
  const auto problem = ProblemOf(WithProblem(folder_.path(), recorded_, failed));
  ASSERT_TRUE(problem.has_value());
  EXPECT_TRUE(problem->may_pass());
  EXPECT_EQ(problem->step(), 40);
}

TEST_F(RecordedCheckpointTest, OtherErrorsAreNotTheCheckpoints) {
  for (const absl::Status& status :
       {absl::InvalidArgumentError("a shape"), absl::PermissionDeniedError("a file"),
        absl::CancelledError("the agent"), absl::UnimplementedError("a version")}) {
    EXPECT_FALSE(ProblemOf(WithProblem(folder_.path(), recorded_, status)).has_value()) << status;
  }
  EXPECT_TRUE(WithProblem(folder_.path(), recorded_, absl::OkStatus()).ok());
}

}  // namespace
}  // namespace strata::worker
