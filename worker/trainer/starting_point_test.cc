// With what a job starts whose controller's state was restored from a backup.
#include "worker/trainer/starting_point.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/commit_authority.h"
#include "checkpoint/committer.h"
#include "checkpoint/testing.h"
#include "common/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Checkpoints of steps 20 and 40 by epoch 3; the restored controller knows of that of step 20.
class RestoredStart : public ::testing::Test {
 protected:
  RestoredStart() {
    Write(20);
    Write(40);
    v1::Controlled& controlled = *task_.mutable_controlled();
    controlled.set_epoch(1'000'001);
    controlled.set_recover(true);
    controlled.set_adopt_newer_checkpoint(true);
    Know(20);
    task_.mutable_job()->mutable_checkpoint()->set_directory(folder_.path());
  }
  // Of a job of 200 steps with no other field set; the task's has none at all.
  void Write(int64_t step) {
    std::vector<checkpoint::FileFragment> fragments;
    for (int rank = 0; rank < 2; ++rank) {
      const checkpoint::Snapshot snapshot = checkpoint::SnapshotOf(step, rank, 2);
      auto fragment =
          checkpoint::WriteRankFile(&files_, {folder_.path(), 3, rank}, step, snapshot.items);
      ASSERT_TRUE(fragment.ok()) << fragment.status();
      fragments.push_back(*std::move(fragment));
    }
    checkpoint::CommitRequest request = checkpoint::RequestOf(3, step, std::move(fragments), 0);
    request.info.job_spec = R"({"train": {"steps": "200"}})";
    checkpoint::LocalCommitAuthority authority;
    checkpoint::Committer committer(folder_.path(), &files_, &authority);
    EXPECT_TRUE(committer.Commit(request).ok());
  }
  std::string Manifest(int64_t step) const {
    return folder_.path() + "/step-000000" + std::to_string(step) + "/manifest.json";
  }
  void Know(int64_t step) {
    v1::RecordedCheckpoint& known = *task_.mutable_controlled()->mutable_checkpoint();
    known.set_epoch(3);
    known.set_step(step);
    known.set_manifest_digest(common::DigestOf(checkpoint::ReadFile(Manifest(step))));
  }
  void Damage(int64_t step) {
    const std::string file =
        folder_.path() + "/step-000000" + std::to_string(step) + "/rank-0.safetensors";
    std::string bytes = checkpoint::ReadFile(file);
    bytes[bytes.size() - 3] ^= 1;
    checkpoint::WriteFile(file, bytes);
  }
  v1::JobPlan Find() {
    v1::JobPlan plan;
    const absl::Status found = FindStartingPoint(task_, plan);
    EXPECT_TRUE(found.ok()) << found;
    return plan;
  }

  const checkpoint::TemporaryFolder folder_;
  checkpoint::FaultyFileSystem files_;  // fails nothing; spares the real syncs
  v1::TrainerTask task_;
};

TEST_F(RestoredStart, ANewerIntactCheckpointIsTold) {
  const v1::JobPlan plan = Find();
  EXPECT_EQ(plan.newer_checkpoint().epoch(), 3);
  EXPECT_EQ(plan.newer_checkpoint().step(), 40);
  EXPECT_EQ(plan.newer_steps(), 200);
  EXPECT_EQ(plan.newer_checkpoint().manifest_digest(),
            common::DigestOf(checkpoint::ReadFile(Manifest(40))));
}

TEST_F(RestoredStart, SoIsOneWhereTheBackupKnewOfNone) {
  task_.mutable_controlled()->clear_checkpoint();
  EXPECT_EQ(Find().newer_checkpoint().step(), 40);
}

TEST_F(RestoredStart, SoIsOneThatWasRecordedAndNotYetPublished) {
  const std::string working = folder_.path() + "/.epoch-3";
  fs::create_directories(working);
  fs::rename(folder_.path() + "/step-00000040", working + "/step-00000040");
  EXPECT_EQ(Find().newer_checkpoint().step(), 40);
  EXPECT_TRUE(fs::exists(Manifest(40)));
}

TEST_F(RestoredStart, ADamagedNewerOneIsSetAside) {
  Damage(40);
  const v1::JobPlan plan = Find();
  EXPECT_FALSE(plan.has_newer_checkpoint());
  EXPECT_EQ(plan.start_step(), 20);
  EXPECT_FALSE(fs::exists(folder_.path() + "/step-00000040"));
}

TEST_F(RestoredStart, WhereAllAreDamagedTheJobStartsAnew) {
  task_.mutable_controlled()->clear_checkpoint();
  Damage(20);
  Damage(40);
  const v1::JobPlan plan = Find();
  EXPECT_FALSE(plan.has_newer_checkpoint());
  EXPECT_EQ(plan.start_step(), 0);
  EXPECT_FALSE(fs::exists(folder_.path() + "/step-00000020"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/step-00000040"));
}

TEST_F(RestoredStart, WithoutANewerOneTheRecordedOneIsBegunWith) {
  Know(40);
  const v1::JobPlan plan = Find();
  EXPECT_FALSE(plan.has_newer_checkpoint());
  EXPECT_EQ(plan.start_step(), 40);
}

TEST_F(RestoredStart, WhoWasNotRestoredTakesTheRecordedOneAlone) {
  task_.mutable_controlled()->set_adopt_newer_checkpoint(false);
  const v1::JobPlan plan = Find();
  EXPECT_FALSE(plan.has_newer_checkpoint());
  EXPECT_EQ(plan.start_step(), 20);
  task_.mutable_controlled()->clear_checkpoint();
  v1::JobPlan refused;
  EXPECT_THAT(std::string(FindStartingPoint(task_, refused).message()),
              HasSubstr("holds checkpoints already"));
}

}  // namespace
}  // namespace strata::worker
