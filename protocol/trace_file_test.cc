#include "protocol/trace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace strata::protocol {
namespace {

namespace fs = std::filesystem;

class TraceFileTest : public testing::Test {
 protected:
  TraceFileTest() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "trace-" + test.name();
    fs::remove_all(folder_);
  }

  static v1::TraceHead Head(int rank = 0, int64_t epoch = 3) {
    v1::TraceHead head;
    head.set_rank(rank);
    head.set_ranks(2);
    head.set_epoch(epoch);
    head.add_streams("compute");
    v1::TraceGroup& group = *head.add_groups();
    group.set_name("data");
    group.add_members(0);
    group.add_members(1);
    v1::TraceProgram& program = *head.add_programs();
    program.set_name("train");
    program.add_instructions()->set_label("forward block 0");
    for (int a = 0; a < 4; ++a) program.add_actions()->set_op("matmul");
    program.mutable_actions(3)->mutable_communication()->set_bytes(64);
    return head;
  }

  // Record `number` of 4 actions a step; each field follows from the number.
  static TraceRecord Record(uint64_t number) {
    const auto n = static_cast<double>(number);
    return {.number = number,
            .step = static_cast<int64_t>((number - 1) / 4),
            .begin = n,
            .end = 2 * n,
            .program = 0,
            .action = static_cast<int32_t>((number - 1) % 4)};
  }

  static bool IsWhole(const TraceRecord& record) {
    const TraceRecord right = Record(record.number);
    return record.step == right.step && record.begin == right.begin && record.end == right.end &&
           record.action == right.action;
  }

  std::string Bytes(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(TraceFileTest, RecordsComeBackInOrderWithTheirHead) {
  auto file = TraceFile::Create(folder_, Head(1), 10);
  ASSERT_TRUE(file.ok()) << file.status();
  for (uint64_t n = 1; n <= 3; ++n) Publish(Record(n), (*file)->records()[n - 1]);
  file->reset();  // as after the process's end
  const auto read = ReadTraceFile(TracePath(folder_, 1));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->head.SerializeAsString(), Head(1).SerializeAsString());
  ASSERT_EQ(read->records.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->records[i].number, i + 1);
    EXPECT_TRUE(IsWhole(read->records[i]));
  }
}

TEST_F(TraceFileTest, ARingThatWentRoundKeepsTheLatest) {
  auto file = TraceFile::Create(folder_, Head(), 10);
  ASSERT_TRUE(file.ok()) << file.status();
  for (uint64_t n = 1; n <= 25; ++n) Publish(Record(n), (*file)->records()[(n - 1) % 10]);
  const auto read = ReadTraceFile(TracePath(folder_, 0));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->records.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(read->records[i].number, 16 + i);
}

TEST_F(TraceFileTest, AReaderBesideTheWriterSeesWholeRecordsOnly) {
  auto file = TraceFile::Create(folder_, Head(), 64);
  ASSERT_TRUE(file.ok()) << file.status();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t n = 1; !done; ++n) Publish(Record(n), (*file)->records()[(n - 1) % 64]);
  });
  size_t seen = 0;
  for (int i = 0; i < 300 || (seen == 0 && i < 100000); ++i) {
    const auto read = ReadTraceFile(TracePath(folder_, 0));
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) break;
    for (const TraceRecord& record : read->records) EXPECT_TRUE(IsWhole(record));
    seen += read->records.size();
  }
  done = true;
  writer.join();
  EXPECT_GT(seen, 0u);
}

TEST_F(TraceFileTest, ALaterStartTakesThePlaceOfAnEarlierOneOfFewerRanks) {
  for (const int rank : {0, 1}) ASSERT_TRUE(TraceFile::Create(folder_, Head(rank, 3), 4).ok());
  v1::PredictedTrace predicted;
  predicted.set_epoch(3);
  ASSERT_TRUE(WritePredictedTrace(folder_, predicted).ok());
  auto both = ReadJobTrace(folder_);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->ranks.size(), 2u);
  EXPECT_TRUE(both->missing.empty());
  EXPECT_TRUE(both->predicted.has_value());

  ASSERT_TRUE(TraceFile::Create(folder_, Head(0, 4), 4).ok());
  const auto later = ReadJobTrace(folder_);
  ASSERT_TRUE(later.ok()) << later.status();
  ASSERT_EQ(later->ranks.size(), 1u);
  EXPECT_EQ(later->ranks[0].head.epoch(), 4);
  EXPECT_EQ(later->missing, std::vector<int>{1});
  EXPECT_FALSE(later->predicted.has_value());
}

TEST_F(TraceFileTest, WhatIsNoTraceIsAnErrorWithItsPlace) {
  EXPECT_TRUE(absl::IsNotFound(ReadJobTrace(folder_).status()));
  fs::create_directories(TraceFolder(folder_));
  const std::string path = TracePath(folder_, 0);
  std::ofstream(path) << std::string(1000, 'x');
  const absl::Status foreign = ReadTraceFile(path).status();
  EXPECT_EQ(foreign, absl::DataLossError(path + ": byte 0: not a trace of Strata's"));
  EXPECT_EQ(ReadJobTrace(folder_).status(), foreign);
  fs::resize_file(path, 7);
  EXPECT_EQ(ReadTraceFile(path).status(), absl::DataLossError(path + ": byte 7: the file ends"));
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadTraceFile(path).status(), absl::DataLossError(path + ": byte 0: no regular file"));
}

TEST_F(TraceFileTest, ARecordThatCannotBeIsAnErrorWithItsPlace) {
  auto file = TraceFile::Create(folder_, Head(), 10);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto fails = [&](TraceRecord record) {
    Publish(record, (*file)->records()[1]);
    const absl::Status status = ReadTraceFile(TracePath(folder_, 0)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find("byte 65576: record "), std::string::npos) << status;
  };
  TraceRecord record = Record(2);
  record.action = 4;
  fails(record);
  record = Record(2);
  record.program = -1;
  fails(record);
  record = Record(2);
  record.end = record.begin - 1;
  fails(record);
  fails(Record(3));
}

TEST_F(TraceFileTest, WhatDoesNotFitIsRefused) {
  const auto file = TraceFile::Create(folder_, Head(), kMostTraceBytes / 40 + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(file.status())) << file.status();
  EXPECT_FALSE(fs::exists(TraceFolder(folder_)));
}

// Every change of a byte is found, or is of what nothing says anything about (padding, times).
TEST_F(TraceFileTest, DamagedFilesAreErrorsAndNeverMore) {
  {
    auto file = TraceFile::Create(folder_, Head(), 8);
    ASSERT_TRUE(file.ok()) << file.status();
    for (uint64_t n = 1; n <= 8; ++n) Publish(Record(n), (*file)->records()[n - 1]);
  }
  const std::string path = TracePath(folder_, 0), good = Bytes(path);
  int refused = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    std::string bytes = good;
    const auto random = common::Philox(17, round, 0);
    // Of the head, the records, or anywhere.
    const size_t spans[] = {200, bytes.size() - 65536, bytes.size()};
    const size_t span = spans[random[0] % 3], from = random[0] % 3 == 1 ? 65536 : 0;
    for (uint32_t change = 0; change <= random[1] % 4; ++change) {
      const auto where = common::Philox(round, change, 1);
      bytes[from + where[0] % span] = static_cast<char>(where[1]);
    }
    if (random[2] % 8 == 0) bytes.resize(random[3] % bytes.size());
    std::ofstream(path, std::ios::binary) << bytes;
    const auto read = ReadTraceFile(path);
    if (read.ok()) {
      EXPECT_LE(read->records.size(), 8u);
    } else {
      ++refused;
      EXPECT_NE(read.status().message().find(path + ": byte "), std::string::npos) << read.status();
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace strata::protocol
