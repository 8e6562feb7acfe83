#include "checkpoint/reader.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ReaderTest : public ::testing::Test {
 protected:
  void Write(int64_t step, int ranks = 4) {
    const auto published = WriteCheckpoint(&files_, folder_.path(), 1, step, ranks);
    ASSERT_TRUE(published.ok()) << published.status();
  }
  std::string Step(int64_t step) const {
    return folder_.path() + "/step-000000" + std::to_string(step);
  }

  const TemporaryFolder folder_;
  FaultyFileSystem files_;  // fails nothing; spares the real syncs
};

TEST_F(ReaderTest, Read_WrittenBy4Ranks_IsTheSameForAnyNumberOfReaders) {
  Write(20, 4);
  for (const Verification verification : {Verification::kEverything, Verification::kOnRead}) {
    for (const int readers : {1, 2, 3, 4, 7}) {
      const auto checkpoint = Checkpoint::OpenFolder(Step(20), verification);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      EXPECT_EQ(Compare(**checkpoint, 20, readers), "");
    }
  }
}

TEST_F(ReaderTest, Read_EveryRangeOfATensor_IsExact) {
  Write(20, 3);
  const auto checkpoint = Checkpoint::OpenFolder(Step(20), Verification::kOnRead);
  ASSERT_TRUE(checkpoint.ok());
  const LogicalTensor tensor = SmallModel()[1];  // adam.m of 37 x 5, in three files
  for (int64_t begin = 0; begin <= 185; begin += 3) {
    for (int64_t end = begin; end <= 185; end += 7) {
      std::vector<float> values(static_cast<size_t>(end - begin) + 1, -99.0f);
      ASSERT_TRUE(
          (*checkpoint)->ReadRange(tensor.name, tensor.state, begin, end, values.data()).ok());
      for (int64_t i = begin; i < end; ++i) {
        ASSERT_EQ(values[static_cast<size_t>(i - begin)], ValueAt(tensor, 20, i));
      }
      ASSERT_EQ(values.back(), -99.0f);
    }
  }
}

TEST_F(ReaderTest, Read_UnknownTensorOrRange_SaysWhich) {
  Write(20, 1);
  const auto checkpoint = Checkpoint::OpenFolder(Step(20), Verification::kEverything);
  ASSERT_TRUE(checkpoint.ok());
  float values[400];
  const auto read = [&](const std::string& name, const std::string& state, int64_t begin,
                        int64_t end) {
    return (*checkpoint)->ReadRange(name, state, begin, end, values);
  };
  EXPECT_TRUE(absl::IsNotFound(read("nobody", "param", 0, 1)));
  EXPECT_TRUE(absl::IsNotFound(read("embedding", "adam.x", 0, 1)));
  EXPECT_THAT(std::string(read("nobody", "param", 0, 1).message()), HasSubstr("nobody (param)"));
  EXPECT_TRUE(absl::IsOutOfRange(read("embedding", "param", 0, 186)));
  EXPECT_TRUE(absl::IsOutOfRange(read("embedding", "param", -1, 1)));
  EXPECT_TRUE(absl::IsOutOfRange(read("embedding", "param", 2, 1)));
  EXPECT_TRUE(read("embedding", "param", 185, 185).ok());
}

TEST_F(ReaderTest, Read_BFloat16AndIntegers_WidenOrAreRefused) {
  const uint16_t brain[] = {0x3f80, 0x4000, 0xc040};
  const int32_t whole[] = {1, 2};
  const SnapshotItem items[] = {{{"b", "param", {3}, DType::kBF16}, 0, 3, brain},
                                {{"i", "param", {2}, DType::kI32}, 0, 2, whole}};
  const auto fragment = WriteRankFile(&files_, {folder_.path(), 1, 0}, 30, items);
  ASSERT_TRUE(fragment.ok()) << fragment.status();
  LocalCommitAuthority authority;
  Committer committer(folder_.path(), &files_, &authority);
  ASSERT_TRUE(committer.Commit(RequestOf(1, 30, {*fragment})).ok());
  const auto checkpoint = Checkpoint::OpenFolder(Step(30), Verification::kOnRead);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  float values[2];
  ASSERT_TRUE((*checkpoint)->ReadRange("b", "param", 1, 3, values).ok());
  EXPECT_THAT(values, ElementsAre(2.0f, -3.0f));
  EXPECT_TRUE(absl::IsOutOfRange((*checkpoint)->ReadRange("b", "param", 2, 4, values)));
  EXPECT_FALSE((*checkpoint)->ReadRange("i", "param", 0, 2, values).ok());
  int32_t back[2];
  ASSERT_TRUE((*checkpoint)->ReadRangeBytes("i", "param", 0, 2, back).ok());
  EXPECT_THAT(back, ElementsAre(1, 2));
}

std::vector<LogicalTensor> Tensors() {
  return {{"matrix", "param", {12, 7}, DType::kF32},
          {"experts", "adam.m", {3, 5, 4}, DType::kF32},
          {"norm", "param", {9}, DType::kF32},
          {"scale", "adam.v", {}, DType::kF32}};
}

// Reads a region and compares each element; an empty text, or what differs.
std::string ReadAndCompare(Checkpoint& checkpoint, const LogicalTensor& tensor, int64_t step,
                           const Region& region) {
  std::vector<float> values(static_cast<size_t>(region.end - region.begin) + 1, -99.0f);
  const absl::Status status =
      checkpoint.ReadRegion(tensor.name, tensor.state, region, values.data());
  if (!status.ok()) return status.ToString();
  Snapshot expected;
  AddRegion(tensor, step, region, /*strided=*/false, expected);
  expected.memory[0].push_back(-99.0f);
  return values == expected.memory[0] ? "" : tensor.name + " " + ToText(region.box) + " differs";
}

// Saved in one random cut, by three ranks, dense and strided; read in another.
TEST_F(ReaderTest, ReadRegion_SavedInAnyCut_IsTheSameInAnyOther) {
  for (uint64_t round = 0; round < 60; ++round) {
    Snapshot ranks[3];
    uint64_t piece = round;
    for (const LogicalTensor& tensor : Tensors()) {
      for (const Region& region : RandomCut(tensor.shape, 2 * round)) {
        AddRegion(tensor, 20, region, /*strided=*/piece % 2 == 0, ranks[piece % 3]);
        ++piece;
      }
    }
    std::vector<FileFragment> fragments;
    for (int rank = 0; rank < 3; ++rank) {
      const auto fragment =
          WriteRankFile(&files_, {folder_.path(), 1, rank}, 20, ranks[rank].items);
      ASSERT_TRUE(fragment.ok()) << fragment.status();
      fragments.push_back(*FileFragment::FromJson(fragment->ToJson()));
    }
    LocalCommitAuthority authority;
    Committer committer(folder_.path(), &files_, &authority);
    const auto published = committer.Commit(RequestOf(1, 20, std::move(fragments)));
    ASSERT_TRUE(published.ok()) << published.status();
    for (const Verification verification : {Verification::kEverything, Verification::kOnRead}) {
      const auto checkpoint = Checkpoint::OpenFolder(Step(20), verification);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      for (const LogicalTensor& tensor : Tensors()) {
        for (const Region& region : RandomCut(tensor.shape, 2 * round + 1)) {
          ASSERT_EQ(ReadAndCompare(**checkpoint, tensor, 20, region), "") << round;
        }
        const Box whole = WholeBox(tensor.shape);
        ASSERT_EQ(ReadAndCompare(**checkpoint, tensor, 20, {whole, 0, whole.elements()}), "");
      }
    }
    std::filesystem::remove_all(Step(20));
  }
}

TEST_F(ReaderTest, ReadBox_OutsideOfTheTensor_SaysWhich) {
  Write(20, 2);
  const auto checkpoint = Checkpoint::OpenFolder(Step(20), Verification::kOnRead);
  ASSERT_TRUE(checkpoint.ok());
  float values[185];
  const auto read = [&](const Box& box) {
    return (*checkpoint)->ReadBox("embedding", "adam.m", box, values);
  };
  EXPECT_TRUE(read({{36, 0}, {1, 5}}).ok());
  EXPECT_TRUE(absl::IsOutOfRange(read({{36, 0}, {2, 5}})));
  EXPECT_TRUE(absl::IsOutOfRange(read({{0}, {5}})));
  EXPECT_THAT(std::string(read({{36, 0}, {2, 5}}).message()),
              HasSubstr("[36:38, 0:5] of embedding"));
}

// A matrix of 1 MiB cut by columns in 2, read by columns in 4 and by rows in 4.
TEST_F(ReaderTest, ReadBox_OfVerifiedFiles_ReadsNoMoreThanItNeeds) {
  const LogicalTensor matrix = {"m", "param", {64, 4096}, DType::kF32};
  Snapshot snapshot;
  AddRegion(matrix, 30, {{{0, 0}, {64, 2048}}, 0, 64 * 2048}, false, snapshot);
  AddRegion(matrix, 30, {{{0, 2048}, {64, 2048}}, 0, 64 * 2048}, true, snapshot);
  const auto fragment = WriteRankFile(&files_, {folder_.path(), 1, 0}, 30, snapshot.items);
  ASSERT_TRUE(fragment.ok()) << fragment.status();
  LocalCommitAuthority authority;
  Committer committer(folder_.path(), &files_, &authority);
  ASSERT_TRUE(committer.Commit(RequestOf(1, 30, {*fragment})).ok());
  FaultyFileSystem counting;
  const auto checkpoint = Checkpoint::OpenFolder(Step(30), Verification::kEverything, &counting);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const Box& box : {Box{{0, 1024}, {64, 1024}}, Box{{16, 0}, {16, 4096}}}) {
    const int64_t before = counting.bytes_read();
    EXPECT_EQ(ReadAndCompare(**checkpoint, matrix, 30, {box, 0, box.elements()}), "");
    const int64_t needed = box.elements() * 4;
    EXPECT_GE(counting.bytes_read() - before, needed);
    EXPECT_LE(counting.bytes_read() - before, 2 * needed);  // gaps of a page are read through
  }
  const Box narrow = {{0, 5}, {64, 1}};  // an element of each row
  const int64_t before = counting.bytes_read();
  EXPECT_EQ(ReadAndCompare(**checkpoint, matrix, 30, {narrow, 0, 64}), "");
  EXPECT_EQ(counting.bytes_read() - before, 64 * 4);
}

// A matrix of 14 MiB in one file: four windows, the last one of 2 MiB.
class WindowsTest : public ReaderTest {
 protected:
  static constexpr int64_t kRow = 4096;  // bytes

  // `change`: of what the manifest will say.
  void WriteMatrix(const std::function<void(FileEntry&)>& change = [](FileEntry&) {}) {
    Snapshot snapshot;
    AddRegion(matrix_, 30, {WholeBox(matrix_.shape), 0, 3584 * 1024}, false, snapshot);
    auto fragment = WriteRankFile(&files_, {folder_.path(), 1, 0}, 30, snapshot.items);
    ASSERT_TRUE(fragment.ok()) << fragment.status();
    fragment = FileFragment::FromJson(fragment->ToJson());
    ASSERT_THAT(fragment->entries[0].windows, SizeIs(4));
    change(fragment->entries[0]);
    LocalCommitAuthority authority;
    Committer committer(folder_.path(), &files_, &authority);
    ASSERT_TRUE(committer.Commit(RequestOf(1, 30, {*fragment})).ok());
  }
  std::unique_ptr<Checkpoint> Open() {
    auto checkpoint = Checkpoint::OpenFolder(Step(30), Verification::kOnRead, &counting_);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint.ok() ? *std::move(checkpoint) : nullptr;
  }
  // Rows [begin, end); bytes read for them.
  int64_t ReadRows(Checkpoint& checkpoint, int64_t begin, int64_t end) {
    const int64_t before = counting_.bytes_read();
    EXPECT_EQ(ReadAndCompare(checkpoint, matrix_, 30,
                             {Box{{begin, 0}, {end - begin, 1024}}, 0, (end - begin) * 1024}),
              "");
    return counting_.bytes_read() - before;
  }

  const LogicalTensor matrix_ = {"m", "param", {3584, 1024}, DType::kF32};
  FaultyFileSystem counting_;
};

TEST_F(WindowsTest, ReadBox_OfFilesNotVerified_ReadsOnlyTheWindowsItNeeds) {
  WriteMatrix();
  const auto checkpoint = Open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(ReadRows(*checkpoint, 1100, 1110), kWindowBytes);
  EXPECT_EQ(ReadRows(*checkpoint, 1200, 1203), 3 * kRow);  // of the same
  EXPECT_EQ(ReadRows(*checkpoint, 2040, 2050), 8 * kRow + kWindowBytes);
  EXPECT_EQ(ReadRows(*checkpoint, 3583, 3584), kWindowBytes / 2);
  EXPECT_EQ(ReadRows(*checkpoint, 0, 3584), kWindowBytes + 2560 * kRow);
}

TEST_F(WindowsTest, ReadBox_AnyByteOfAWindowDamaged_IsFoundWhateverOfItIsRead) {
  WriteMatrix();
  std::fstream file(Step(30) + "/rank-0.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(0, std::ios::end);
  const int64_t data = static_cast<int64_t>(file.tellg()) - 3584 * kRow;
  const auto flip = [&](int64_t at) {
    file.seekg(data + at);
    const char changed = static_cast<char>(file.get() ^ 4);
    file.seekp(data + at);
    file.put(changed).flush();
  };
  for (const int64_t at : {kWindowBytes, 2 * kWindowBytes - 1, kWindowBytes + 12345}) {
    flip(at);
    for (const int64_t row : {1024, 1500, 2047}) {
      const auto checkpoint = Open();
      float values[1024];
      const absl::Status status = checkpoint->ReadBox("m", "param", {{row, 0}, {1, 1024}}, values);
      EXPECT_TRUE(absl::IsDataLoss(status)) << at << " " << row << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("bytes 4194304 to 8388608 of entry m"));
      for (const int64_t sound : {0, 1023, 2048, 3583}) ReadRows(*checkpoint, sound, sound + 1);
    }
    flip(at);
  }
}

TEST_F(WindowsTest, ManifestWithoutWindows_TheFirstReadReadsAllOfTheEntry) {
  WriteMatrix([](FileEntry& entry) { entry.windows.clear(); });  // as before version 3
  const auto checkpoint = Open();
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(ReadRows(*checkpoint, 1100, 1110), 3584 * kRow);
  EXPECT_EQ(ReadRows(*checkpoint, 2040, 2050), 10 * kRow);
}

TEST_F(WindowsTest, ManifestWithAnotherNumberOfWindows_IsDamaged) {
  WriteMatrix([](FileEntry& entry) { entry.windows.pop_back(); });
  const absl::Status status = Checkpoint::OpenFolder(Step(30), Verification::kOnRead).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("m has 4 windows, the manifest says 3"));
}

// Written by the build before boxes.
TEST_F(ReaderTest, Open_ManifestOfVersion1_IsReadAsItWas) {
  const auto found = OpenCheckpoint("checkpoint/goldens/version-1");
  ASSERT_TRUE(found.ok()) << found.status();
  for (const int readers : {1, 4}) EXPECT_EQ(Compare(*found->checkpoint, 20, readers), "");
  for (const LogicalTensor& tensor : SmallModel()) {
    for (const Region& region : RandomCut(tensor.shape, 5)) {
      EXPECT_EQ(ReadAndCompare(*found->checkpoint, tensor, 20, region), "");
    }
  }
}

// Whichever read fails: named, no damage, and fine the next time. Whichever is wrong: damage.
TEST_F(ReaderTest, AnyReadFailsOrIsWrong_IsToldApart) {
  using ReadFault = FaultyFileSystem::ReadFault;
  Write(20, 2);
  const auto read = [&](FaultyFileSystem& files, Verification verification) {
    const auto checkpoint = Checkpoint::OpenFolder(Step(20), verification, &files);
    if (!checkpoint.ok()) return checkpoint.status();
    float values[185];
    return (*checkpoint)->ReadRange("embedding", "adam.m", 0, 185, values);
  };
  for (const Verification verification : {Verification::kEverything, Verification::kOnRead}) {
    int failures = 0, flips = 0;
    for (int at = 1;; ++at) {
      FaultyFileSystem files;
      files.FailRead(ReadFault::kError, at);
      const absl::Status status = read(files, verification);
      if (!files.fired()) break;
      ++failures;
      EXPECT_TRUE(absl::IsUnavailable(status)) << at << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(Step(20)));
      EXPECT_TRUE(read(files, verification).ok());
    }
    for (int at = 1; at <= failures; ++at) {
      FaultyFileSystem files;
      files.FailRead(ReadFault::kFlippedBit, at);
      const absl::Status status = read(files, verification);
      flips += !status.ok();
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << at << ": " << status;
    }
    EXPECT_GE(failures, 8);
    EXPECT_GE(flips, 6);  // openings and looks at folders have no bits
  }
}

// Every damage of a checkpoint is found, named, and the one before it is used.
TEST_F(ReaderTest, FindNewest_AnyDamage_NamesItAndTakesTheOneBefore) {
  const auto flip = [](size_t (*where)(size_t)) {
    return [where](const std::string& path) {
      std::string content = ReadFile(path);
      const size_t at = where(content.size());
      content[at] = static_cast<char>(content[at] ^ 0x10);
      WriteFile(path, content);
    };
  };
  const auto cut = [](const std::string& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  };
  const auto remove = [](const std::string& path) { std::filesystem::remove(path); };
  struct {
    std::string file;
    std::function<void(const std::string&)> damage;
    std::string says;
  } const cases[] = {
      {"rank-3.safetensors", flip([](size_t) { return size_t{20}; }), "header"},
      {"rank-3.safetensors", flip([](size_t) { return size_t{0}; }), "safetensors"},
      {"rank-2.safetensors", flip([](size_t size) { return size / 2; }), "digest"},
      {"rank-3.safetensors", flip([](size_t size) { return size - 1; }), "digest differs"},
      {"rank-0.safetensors", cut, "bytes"},
      {"rank-1.safetensors", remove, "is missing"},
      {"manifest.json", cut, "does not end as a manifest does"},
      {"manifest.json", flip([](size_t size) { return size / 2; }), "digest differs"},
      {"manifest.json", remove, "is missing"},
  };
  for (const auto& c : cases) {
    std::filesystem::remove_all(Step(20)), std::filesystem::remove_all(Step(40));
    Write(20), Write(40);
    c.damage(Step(40) + "/" + c.file);
    const auto found = FindNewestIntact(folder_.path());
    ASSERT_TRUE(found.ok()) << c.file << c.says << found.status();
    EXPECT_EQ(Compare(*found->checkpoint, 20, 2), "");
    ASSERT_THAT(found->damaged, SizeIs(1));
    EXPECT_EQ(found->damaged[0].step, 40);
    EXPECT_EQ(found->damaged[0].folder, Step(40));
    EXPECT_THAT(found->damaged[0].what,
                AllOf(StartsWith(Step(40) + "/" + c.file), HasSubstr(c.says)));
    EXPECT_EQ(found->damaged[0].what.find('\n'), std::string::npos);
    // Named itself, it is refused in the same words, not replaced.
    const absl::Status status = OpenCheckpoint(Step(40)).status();
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_EQ(std::string(status.message()), found->damaged[0].what);
  }
}

TEST_F(ReaderTest, Open_AnyBitOfAnyFileFlipped_IsDataLoss) {
  Write(20, 1);
  for (const char* name : {"rank-0.safetensors", "manifest.json"}) {
    const std::string path = Step(20) + "/" + name, content = ReadFile(path);
    // Every byte, with a bit that moves along.
    for (size_t at = 0; at < content.size(); ++at) {
      std::string changed = content;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      WriteFile(path, changed);
      const absl::Status status = OpenCheckpoint(folder_.path()).status();
      ASSERT_TRUE(absl::IsDataLoss(status)) << name << " " << at << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(path));
    }
    WriteFile(path, content);
  }
  EXPECT_TRUE(OpenCheckpoint(folder_.path()).ok());
}

TEST_F(ReaderTest, ReadRange_DataFlippedAfterOpen_IsDataLossForThatEntryOnly) {
  Write(20, 1);
  const std::string path = Step(20) + "/rank-0.safetensors";
  std::string content = ReadFile(path);
  content.back() = static_cast<char>(content.back() ^ 1);
  WriteFile(path, content);
  const auto checkpoint = Checkpoint::OpenFolder(Step(20), Verification::kOnRead);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  int refused = 0;
  for (const LogicalTensor& tensor : SmallModel()) {
    float value;
    const absl::Status status = (*checkpoint)->ReadRange(tensor.name, tensor.state, 0, 1, &value);
    if (status.ok()) continue;
    ++refused;
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("step-00000020/rank-0.safetensors"));
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(ReaderTest, FindNewest_OnlyDamagedOnes_NamesEachOnItsLine) {
  Write(20), Write(40);
  for (const int64_t step : {20, 40}) {
    std::filesystem::resize_file(Step(step) + "/rank-3.safetensors", 100);
  }
  const absl::Status status = FindNewestIntact(folder_.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\n" + Step(40) + "/rank-3.safetensors: has 100 bytes"),
                    HasSubstr("\n" + Step(20) + "/rank-3.safetensors: has 100 bytes")));
}

TEST_F(ReaderTest, Open_NothingThere_IsNotFoundAndNotDamage) {
  EXPECT_TRUE(absl::IsNotFound(FindNewestIntact(folder_.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(FindNewestIntact(folder_.path() + "/none").status()));
  EXPECT_TRUE(absl::IsNotFound(OpenCheckpoint(folder_.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(OpenCheckpoint(folder_.path() + "/none").status()));
  WriteFile(folder_.path() + "/file", "x");
  const absl::Status status = OpenCheckpoint(folder_.path() + "/file").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("file: is a file"));
  EXPECT_TRUE(ListCheckpoints(folder_.path() + "/none")->empty());
}

TEST_F(ReaderTest, OpenCheckpoint_FolderOrDirectory_OpensIt) {
  Write(20), Write(40);
  for (const std::string& path :
       {Step(40), Step(40) + "/", folder_.path(), folder_.path() + "//"}) {
    const auto found = OpenCheckpoint(path);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->checkpoint->manifest().info.step, 40);
  }
  EXPECT_EQ(OpenCheckpoint(Step(20))->checkpoint->manifest().info.step, 20);
  const auto listed = ListCheckpoints(folder_.path());
  ASSERT_THAT(*listed, SizeIs(2));
  EXPECT_EQ((*listed)[0].step, 20);
  EXPECT_EQ((*listed)[1].path, Step(40));
}

}  // namespace
}  // namespace strata::checkpoint
