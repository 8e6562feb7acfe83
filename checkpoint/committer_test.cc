#include "checkpoint/committer.h"

#include <filesystem>
#include <map>

#include "checkpoint/layout.h"
#include "checkpoint/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Fault = FaultyFileSystem::Fault;

// Records in memory, for one epoch only.
class FakeAuthority final : public CommitAuthority {
 public:
  absl::Status Record(int64_t epoch, int64_t step, const std::string& digest,
                      const std::string& path) override {
    if (epoch != current_epoch) return absl::AbortedError("stale epoch");
    records[{epoch, step}] = digest + " " + path;
    return absl::OkStatus();
  }
  absl::StatusOr<bool> IsRecorded(int64_t epoch, int64_t step, const std::string&) override {
    return records.count({epoch, step}) > 0;
  }
  int64_t current_epoch = 1;
  std::map<std::pair<int64_t, int64_t>, std::string> records;
};

class CommitterTest : public ::testing::Test {
 protected:
  std::vector<FileFragment> WriteRanks(int64_t epoch, int64_t step, int ranks) {
    std::vector<FileFragment> fragments;
    for (int rank = 0; rank < ranks; ++rank) {
      const Snapshot snapshot = SnapshotOf(step, rank, ranks);
      fragments.push_back(
          *WriteRankFile(&files_, {folder_.path(), epoch, rank}, step, snapshot.items));
    }
    return fragments;
  }
  std::vector<std::string> Names() { return *files_.List(folder_.path()); }
  // The step of the newest intact checkpoint, whose values are compared; -1 if something is wrong.
  int64_t NewestStep() {
    const auto found = FindNewestIntact(folder_.path());
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return -1;
    for (const Damage& damage : found->damaged) ADD_FAILURE() << damage.what;
    const int64_t step = found->checkpoint->manifest().info.step;
    EXPECT_EQ(Compare(*found->checkpoint, step, 2), "");
    return step;
  }

  const TemporaryFolder folder_;
  FaultyFileSystem files_;  // fails nothing; spares the real syncs
  LocalCommitAuthority local_;
  Committer committer_{folder_.path() + "/", &files_, &local_};
};

TEST_F(CommitterTest, Commit_AllRanksWrote_PublishesTheFolder) {
  const auto published = committer_.Commit(RequestOf(1, 20, WriteRanks(1, 20, 3)));
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->folder, folder_.path() + "/step-00000020");
  EXPECT_TRUE(published->cleanup.ok());
  EXPECT_THAT(*files_.List(published->folder),
              ElementsAre("manifest.json", "rank-0.safetensors", "rank-1.safetensors",
                          "rank-2.safetensors"));
  EXPECT_EQ(NewestStep(), 20);
}

TEST_F(CommitterTest, Commit_Twice_IsTheSameAsOnce) {
  const CommitRequest request = RequestOf(1, 20, WriteRanks(1, 20, 2));
  ASSERT_TRUE(committer_.Commit(request).ok());
  EXPECT_TRUE(committer_.Commit(request).ok());
  EXPECT_EQ(NewestStep(), 20);
}

TEST_F(CommitterTest, Commit_AnotherCheckpointOfThatStepIsThere_LeavesItAlone) {
  ASSERT_TRUE(WriteCheckpoint(&files_, folder_.path(), 1, 20, 2).ok());
  const std::string before = ReadFile(folder_.path() + "/step-00000020/manifest.json");
  const absl::Status status = committer_.Commit(RequestOf(2, 20, WriteRanks(2, 20, 1))).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(ReadFile(folder_.path() + "/step-00000020/manifest.json"), before);
}

TEST_F(CommitterTest, Commit_RankMissing_IsRefusedAndNothingIsPublished) {
  std::vector<FileFragment> fragments = WriteRanks(1, 20, 2);
  std::filesystem::remove(folder_.path() + "/.epoch-1/step-00000020/rank-1.safetensors");
  EXPECT_TRUE(absl::IsFailedPrecondition(committer_.Commit(RequestOf(1, 20, fragments)).status()));
  fragments.pop_back();
  const absl::Status status = committer_.Commit(RequestOf(1, 20, fragments)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is in no file"));
  EXPECT_THAT(Names(), ElementsAre(".epoch-1"));
}

TEST_F(CommitterTest, Commit_AuthorityRefuses_PublishesNothingAndRecoverDropsIt) {
  FakeAuthority authority;
  authority.current_epoch = 2;
  Committer committer(folder_.path(), &files_, &authority);
  EXPECT_TRUE(absl::IsAborted(committer.Commit(RequestOf(1, 20, WriteRanks(1, 20, 2))).status()));
  EXPECT_THAT(Names(), ElementsAre(".epoch-1"));
  EXPECT_THAT(*committer.Recover(2), IsEmpty());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(CommitterTest, Commit_AuthorityAgrees_GetsEpochStepDigestAndPath) {
  FakeAuthority authority;
  Committer committer(folder_.path(), &files_, &authority);
  const auto published = committer.Commit(RequestOf(1, 20, WriteRanks(1, 20, 2)));
  ASSERT_TRUE(published.ok()) << published.status();
  const std::string manifest = ReadFile(published->folder + "/manifest.json");
  EXPECT_EQ((authority.records[{1, 20}]),
            common::DigestOf(manifest) + " " + folder_.path() + "/.epoch-1/step-00000020");
}

TEST_F(CommitterTest, Commit_Keep2_DeletesTheOldestOnly) {
  for (const int64_t step : {10, 20, 30}) {
    const auto published = WriteCheckpoint(&files_, folder_.path(), 1, step, 2, 2);
    ASSERT_TRUE(published.ok() && published->cleanup.ok());
  }
  EXPECT_THAT(Names(), ElementsAre(".epoch-1", "step-00000020", "step-00000030"));
  // A commit behind newer ones, which it leaves alone.
  ASSERT_TRUE(WriteCheckpoint(&files_, folder_.path(), 2, 25, 2, 1).ok());
  EXPECT_THAT(Names(), ElementsAre(".epoch-1", ".epoch-2", "step-00000025", "step-00000030"));
}

TEST_F(CommitterTest, PrepareDirectory_MissingOrBelowAFile_IsCreatedOrRefused) {
  Committer missing(folder_.path() + "/a/b", PosixFileSystem(), &local_);
  EXPECT_TRUE(missing.PrepareDirectory().ok());
  EXPECT_THAT(*files_.List(folder_.path() + "/a/b"), IsEmpty());
  WriteFile(folder_.path() + "/text", "x");
  Committer below(folder_.path() + "/text/below-a-file", PosixFileSystem(), &local_);
  const absl::Status status = below.PrepareDirectory();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("below-a-file"));
}

TEST_F(CommitterTest, PrepareDirectory_DiskFull_LeavesNothing) {
  for (int at = 2; at <= 4; ++at) {
    FaultyFileSystem full(Fault::kError, at);
    Committer committer(folder_.path(), &full, &local_);
    EXPECT_TRUE(absl::IsResourceExhausted(committer.PrepareDirectory()));
    EXPECT_THAT(Names(), IsEmpty());
  }
}

TEST_F(CommitterTest, NextEpoch_FoldersAndManifests_IsBeyondAll) {
  EXPECT_EQ(*committer_.NextEpoch(), 1);
  ASSERT_TRUE(WriteCheckpoint(&files_, folder_.path(), 4, 20, 1).ok());
  EXPECT_EQ(*committer_.NextEpoch(), 5);
  ASSERT_TRUE(committer_.Recover(5).ok());
  EXPECT_THAT(Names(), ElementsAre("step-00000020"));
  EXPECT_EQ(*committer_.NextEpoch(), 5);
  WriteFile(folder_.path() + "/step-00000020/manifest.json", "damaged");
  EXPECT_EQ(*committer_.NextEpoch(), 1);
  Committer nowhere(folder_.path() + "/none", &files_, &local_);
  EXPECT_EQ(*nowhere.NextEpoch(), 1);
  EXPECT_THAT(*nowhere.Recover(1), IsEmpty());
}

TEST_F(CommitterTest, SetAside_DamagedTwice_KeepsBothAndFreesTheStep) {
  for (const char* name : {".step-00000020.damaged", ".step-00000020.2.damaged"}) {
    ASSERT_TRUE(WriteCheckpoint(&files_, folder_.path(), 1, 20, 1).ok());
    EXPECT_EQ(*committer_.SetAside(20), name);
  }
  ASSERT_TRUE(WriteCheckpoint(&files_, folder_.path(), 2, 20, 1).ok());
  EXPECT_EQ(NewestStep(), 20);
  ASSERT_TRUE(committer_.Recover(9).ok());
  EXPECT_THAT(Names(),
              ElementsAre(".step-00000020.2.damaged", ".step-00000020.damaged", "step-00000020"));
  EXPECT_TRUE(absl::IsNotFound(committer_.SetAside(30).status()));
}

TEST_F(CommitterTest, Recover_DamagedManifestOfARecordedCheckpoint_PublishesItForTheReaderToName) {
  WriteRanks(1, 20, 1);
  WriteFile(folder_.path() + "/.epoch-1/step-00000020/manifest.json", "damaged");
  EXPECT_THAT(*committer_.Recover(2), ElementsAre(20));
  const absl::Status status = FindNewestIntact(folder_.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-00000020/manifest.json"));
}

TEST_F(CommitterTest, AsyncCommitter_CommitInBackground_GivesTheResult) {
  AsyncCommitter async(&committer_);
  EXPECT_TRUE(absl::IsFailedPrecondition(async.Wait().status()));
  ASSERT_TRUE(async.Begin(RequestOf(1, 20, WriteRanks(1, 20, 2))).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(async.Begin(RequestOf(1, 20, {}))));
  EXPECT_TRUE(async.Wait().ok());
  EXPECT_EQ(NewestStep(), 20);
}

// One attempt to write and commit step 20 beside the committed step 10, keeping one.
absl::Status Attempt(FileSystem* files, const std::string& directory, int64_t epoch) {
  const absl::StatusOr<Published> published = WriteCheckpoint(files, directory, epoch, 20, 2, 1);
  return published.ok() ? published->cleanup : published.status();
}

// What is wrong with any published checkpoint; an empty text if nothing.
std::string AnyDamage(const std::string& directory) {
  const auto folders = ListCheckpoints(directory);
  if (!folders.ok()) return folders.status().ToString();
  for (const CheckpointFolder& folder : *folders) {
    const auto checkpoint = Checkpoint::OpenFolder(folder.path, Verification::kEverything);
    if (!checkpoint.ok()) return checkpoint.status().ToString();
  }
  return "";
}

// Power is lost at every single operation of writing and committing; whatever is left is the old or
// the new checkpoint, whole; and the job that starts after it gets to the same place.
TEST(CommitCrashTest, PowerLostAtAnyOperation_LeavesTheOldOrTheNewCheckpoint) {
  int crashes = 0, old_survived = 0;
  for (int at = 1;; ++at) {
    const TemporaryFolder folder;
    FaultyFileSystem steady;
    LocalCommitAuthority authority;
    ASSERT_TRUE(WriteCheckpoint(&steady, folder.path(), 1, 10, 2).ok());
    FaultyFileSystem files(Fault::kCrash, at);
    const bool done = Attempt(&files, folder.path(), 1).ok();
    ASSERT_EQ(done, !files.fired());
    if (done) break;
    ++crashes;
    files.LosePower();

    Committer committer(folder.path(), &steady, &authority);
    ASSERT_TRUE(committer.Recover(2).ok());
    auto found = FindNewestIntact(folder.path());
    ASSERT_TRUE(found.ok()) << at << ": " << found.status();
    EXPECT_EQ(AnyDamage(folder.path()), "") << at;
    const int64_t step = found->checkpoint->manifest().info.step;
    ASSERT_TRUE(step == 10 || step == 20);
    EXPECT_EQ(Compare(*found->checkpoint, step, 3), "");
    old_survived += step == 10;
    if (step == 10) {
      const absl::Status again = Attempt(&steady, folder.path(), 2);
      ASSERT_TRUE(again.ok()) << at << ": " << again;
    }
    found = FindNewestIntact(folder.path());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Compare(*found->checkpoint, 20, 1), "");
    ASSERT_TRUE(committer.Recover(3).ok());
    const auto names = *steady.List(folder.path());
    if (step == 10) {
      EXPECT_THAT(names, ElementsAre("step-00000020")) << at;
    }
  }
  EXPECT_GT(crashes, 40);
  EXPECT_GT(old_survived, 30);
  EXPECT_LT(old_survived, crashes);
}

// The same, and power is lost again at every operation of the recovery.
TEST(CommitCrashTest, PowerLostInRecoveryToo_IsRecoveredByTheNext) {
  int crashes = 0;
  for (int at = 1;; ++at) {
    bool done = false;
    for (int second = 1;; ++second) {
      const TemporaryFolder folder;
      FaultyFileSystem steady;
      LocalCommitAuthority authority;
      ASSERT_TRUE(WriteCheckpoint(&steady, folder.path(), 1, 10, 1).ok());
      FaultyFileSystem files(Fault::kCrash, at);
      done = Attempt(&files, folder.path(), 1).ok();
      if (done) break;
      files.LosePower();
      FaultyFileSystem recovering(Fault::kCrash, second);
      const bool recovered = Committer(folder.path(), &recovering, &authority).Recover(2).ok();
      if (recovered) break;
      ++crashes;
      recovering.LosePower();
      ASSERT_TRUE(Committer(folder.path(), &steady, &authority).Recover(3).ok());
      const auto found = FindNewestIntact(folder.path());
      ASSERT_TRUE(found.ok()) << at << " " << second << ": " << found.status();
      EXPECT_EQ(AnyDamage(folder.path()), "") << at << " " << second;
      const int64_t step = found->checkpoint->manifest().info.step;
      EXPECT_EQ(Compare(*found->checkpoint, step, 1), "");
    }
    if (done) break;
  }
  EXPECT_GT(crashes, 20);
}

// An operation fails and the process lives on: the error says why, and the next attempt succeeds.
TEST(CommitErrorTest, DiskFullAtAnyOperation_IsReportedAndTheNextAttemptSucceeds) {
  int errors = 0;
  for (int at = 1;; ++at) {
    const TemporaryFolder folder;
    FaultyFileSystem steady;
    ASSERT_TRUE(WriteCheckpoint(&steady, folder.path(), 1, 10, 2).ok());
    FaultyFileSystem files(Fault::kError, at);
    const absl::Status status = Attempt(&files, folder.path(), 1);
    if (!files.fired()) break;
    ++errors;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << at << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder.path()));
    const auto found = FindNewestIntact(folder.path());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->damaged.empty());
    // Where it was published already, a second job finds it; else the same one writes it again.
    if (found->checkpoint->manifest().info.step == 10) {
      const absl::Status again = Attempt(&files, folder.path(), 1);
      ASSERT_TRUE(again.ok()) << at << ": " << again;
    }
    const auto newest = FindNewestIntact(folder.path());
    ASSERT_TRUE(newest.ok());
    EXPECT_EQ(Compare(*newest->checkpoint, 20, 1), "");
  }
  EXPECT_GT(errors, 40);
}

TEST(CommitCrashTest, PowerLostAfterCommit_KeepsTheCheckpoint) {
  for (const int64_t keep : {0, 1}) {
    const TemporaryFolder folder;
    FaultyFileSystem files;
    ASSERT_TRUE(WriteCheckpoint(&files, folder.path(), 1, 20, 2, keep).ok());
    files.LosePower();
    const auto found = FindNewestIntact(folder.path());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Compare(*found->checkpoint, 20, 1), "");
  }
}

TEST(LayoutTest, Names_OnlyOwnOnes_AreRecognised) {
  EXPECT_EQ(StepFolderName(20), "step-00000020");
  EXPECT_EQ(StepFromFolderName("step-00000020"), 20);
  EXPECT_EQ(StepFromFolderName("step-123456789"), 123456789);
  for (const char* name : {"step-20", "step-", "step-0000002x", "step-000000020", "xstep-00000020",
                           "step--0000020", "step-00000020.x", "step- 0000020"}) {
    EXPECT_FALSE(StepFromFolderName(name).has_value()) << name;
  }
  EXPECT_EQ(EpochFromFolderName(EpochFolderName(3)), 3);
  EXPECT_FALSE(EpochFromFolderName(".epoch-03").has_value());
  EXPECT_TRUE(IsDeletingFolderName(DeletingFolderName(3)));
  EXPECT_FALSE(IsDeletingFolderName(DamagedFolderName(3, 1)));
}

}  // namespace
}  // namespace strata::checkpoint
