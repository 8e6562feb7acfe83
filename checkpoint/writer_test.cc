#include "checkpoint/writer.h"

#include <filesystem>

#include "checkpoint/safetensors.h"
#include "checkpoint/testing.h"
#include "common/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WriterTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string step_folder_ = folder_.path() + "/.epoch-2/step-00000020";
};

TEST_F(WriterTest, Write_OneRankOfTwo_DescribesExactlyWhatIsOnDisk) {
  const Snapshot snapshot = SnapshotOf(20, 1, 2);
  const auto fragment =
      WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 1}, 20, snapshot.items);
  ASSERT_TRUE(fragment.ok()) << fragment.status();
  EXPECT_THAT(*PosixFileSystem()->List(step_folder_), ElementsAre("rank-1.safetensors"));
  const std::string content = ReadFile(step_folder_ + "/rank-1.safetensors");
  EXPECT_EQ(fragment->file, "rank-1.safetensors");
  EXPECT_EQ(fragment->size_bytes, static_cast<int64_t>(content.size()));
  EXPECT_EQ(fragment->digest, common::DigestOf(content));
  const auto reader = SafetensorsReader::Open(step_folder_ + "/rank-1.safetensors");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header_digest(), fragment->header_digest);
  ASSERT_EQ((*reader)->entries().size(), fragment->entries.size());
  for (const FileEntry& entry : fragment->entries) {
    const SafetensorsEntry* const stored = (*reader)->Find(entry.name);
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(entry.digest, common::DigestOf(content.data() + stored->offset_bytes,
                                             static_cast<size_t>(stored->size_bytes)));
  }
  // A whole parameter keeps its name and shape.
  const SafetensorsEntry* const whole = (*reader)->Find("scale");
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(whole->shape.empty());
  EXPECT_NE((*reader)->Find("adam.m:embedding[92:185]"), nullptr);
}

TEST_F(WriterTest, Write_LargerThanAChunk_IsWhole) {
  const LogicalTensor tensor = {"big", "param", {300'000}, DType::kF32};
  std::vector<float> data(300'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const SnapshotItem item = {tensor, 0, 300'000, data.data()};
  ASSERT_TRUE(WriteCheckpoint(PosixFileSystem(), folder_.path(), 1, 1, 1).ok());
  const auto fragment = WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 0}, 20, {&item, 1});
  ASSERT_TRUE(fragment.ok());
  const std::string content = ReadFile(step_folder_ + "/rank-0.safetensors");
  EXPECT_EQ(fragment->digest, common::DigestOf(content));
  EXPECT_EQ(fragment->entries[0].digest, common::DigestOf(data.data(), data.size() * 4));
}

TEST_F(WriterTest, Write_AnyOperationFails_NamesItAndLeavesNoHalfFile) {
  const Snapshot snapshot = SnapshotOf(20, 0, 1);
  int failures = 0;
  for (int at = 1;; ++at) {
    std::filesystem::remove_all(folder_.path() + "/.epoch-2");
    FaultyFileSystem files(FaultyFileSystem::Fault::kError, at);
    const auto fragment = WriteRankFile(&files, {folder_.path(), 2, 0}, 20, snapshot.items);
    if (!files.fired()) {
      EXPECT_TRUE(fragment.ok());
      break;
    }
    ++failures;
    EXPECT_TRUE(absl::IsResourceExhausted(fragment.status())) << fragment.status();
    EXPECT_THAT(std::string(fragment.status().message()), HasSubstr("No space left on device"));
    EXPECT_THAT(std::string(fragment.status().message()), HasSubstr(folder_.path()));
    EXPECT_FALSE(files.Exists(step_folder_ + "/rank-0.safetensors.tmp"));
    // The next try succeeds.
    EXPECT_TRUE(WriteRankFile(&files, {folder_.path(), 2, 0}, 20, snapshot.items).ok());
  }
  EXPECT_GT(failures, 15);
}

TEST_F(WriterTest, Write_PowerLostAfterIt_FileIsWhole) {
  const Snapshot snapshot = SnapshotOf(20, 0, 1);
  FaultyFileSystem files;
  const auto fragment = WriteRankFile(&files, {folder_.path(), 2, 0}, 20, snapshot.items);
  ASSERT_TRUE(fragment.ok()) << fragment.status();
  files.LosePower();
  EXPECT_EQ(common::DigestOf(ReadFile(step_folder_ + "/rank-0.safetensors")), fragment->digest);
}

TEST_F(WriterTest, Write_RangeOutsideItsTensor_IsRefused) {
  Snapshot snapshot = SnapshotOf(20, 0, 1);
  snapshot.items[0].end += 1;
  EXPECT_FALSE(WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 0}, 20, snapshot.items).ok());
}

TEST_F(WriterTest, Write_BoxesAndRangesOfBoxes_AreNamedByTheirPlaces) {
  const LogicalTensor tensor = {"m", "param", {4, 6}, DType::kF32};
  Snapshot snapshot;
  AddRegion(tensor, 20, {{{0, 2}, {4, 2}}, 0, 8}, true, snapshot);
  AddRegion(tensor, 20, {{{0, 4}, {4, 2}}, 3, 8}, false, snapshot);
  AddRegion({"whole", "param", {2, 2}, DType::kF32}, 20, {WholeBox({2, 2}), 0, 4}, true, snapshot);
  const auto fragment =
      WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 0}, 20, snapshot.items);
  ASSERT_TRUE(fragment.ok()) << fragment.status();
  const auto reader = SafetensorsReader::Open(step_folder_ + "/rank-0.safetensors");
  ASSERT_TRUE(reader.ok());
  const SafetensorsEntry* const box = (*reader)->Find("m[0:4, 2:4]");
  ASSERT_NE(box, nullptr);
  EXPECT_THAT(box->shape, ElementsAre(4, 2));
  ASSERT_NE((*reader)->Find("m[0:4, 4:6][3:8]"), nullptr);
  EXPECT_NE((*reader)->Find("whole"), nullptr);
  float values[8];
  ASSERT_TRUE((*reader)->ReadBytes(*box, 0, sizeof(values), values).ok());
  EXPECT_EQ(values[3], ValueAt(tensor, 20, 1 * 6 + 3));
  for (SnapshotItem item : {snapshot.items[0], snapshot.items[1]}) {
    item.box = Box{{0, 5}, {4, 2}};
    EXPECT_FALSE(WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 0}, 21, {&item, 1}).ok());
  }
  SnapshotItem item = snapshot.items[0];
  item.strides.pop_back();
  EXPECT_FALSE(WriteRankFile(PosixFileSystem(), {folder_.path(), 2, 0}, 21, {&item, 1}).ok());
}

TEST_F(WriterTest, AsyncWriter_TwoCheckpointsInTurn_GivesEachItsResult) {
  AsyncWriter writer({folder_.path(), 2, 0}, PosixFileSystem());
  EXPECT_FALSE(writer.busy());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Wait().status()));
  const Snapshot first = SnapshotOf(20, 0, 1), second = SnapshotOf(40, 0, 1);
  ASSERT_TRUE(writer.Begin(20, first.items).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Begin(40, second.items)));  // one in flight at most
  ASSERT_TRUE(writer.Wait().ok());
  EXPECT_FALSE(writer.busy());
  ASSERT_TRUE(writer.Begin(40, second.items).ok());
  std::optional<absl::StatusOr<FileFragment>> result;
  while (!result.has_value()) result = writer.Poll();
  ASSERT_TRUE(result->ok());
  EXPECT_FALSE(writer.busy());
  EXPECT_TRUE(PosixFileSystem()->Exists(step_folder_ + "/rank-0.safetensors"));
}

TEST_F(WriterTest, AsyncWriter_DestroyedInFlight_FinishesFirst) {
  const Snapshot snapshot = SnapshotOf(20, 0, 1);
  {
    AsyncWriter writer({folder_.path(), 2, 0}, PosixFileSystem());
    ASSERT_TRUE(writer.Begin(20, snapshot.items).ok());
  }
  EXPECT_TRUE(PosixFileSystem()->Exists(step_folder_ + "/rank-0.safetensors"));
}

TEST_F(WriterTest, AsyncWriter_DirectoryBelowAFile_ReturnsTheError) {
  WriteFile(folder_.path() + "/file", "x");
  AsyncWriter writer({folder_.path() + "/file/below", 2, 0}, PosixFileSystem());
  const Snapshot snapshot = SnapshotOf(20, 0, 1);
  ASSERT_TRUE(writer.Begin(20, snapshot.items).ok());
  const auto result = writer.Wait();
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("file/below"));
}

}  // namespace
}  // namespace strata::checkpoint
