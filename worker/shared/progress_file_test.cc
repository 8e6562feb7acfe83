#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "worker/shared/progress_reader.h"
#include "worker/shared/progress_writer.h"

namespace strata::worker {
namespace {

constexpr ProgressSizes kSizes = {.label_capacity = 5, .ring_bytes = 300};

class ProgressFileTest : public testing::Test {
 protected:
  ProgressFileTest() : descriptor_(memfd_create("progress", MFD_CLOEXEC)) {}
  ~ProgressFileTest() override { close(descriptor_); }

  void Overwrite(off_t at, const void* bytes, size_t size) {
    ASSERT_EQ(pwrite(descriptor_, bytes, size, at), static_cast<ssize_t>(size));
  }
  void WriteRecord() { ASSERT_TRUE(ProgressWriter::Create(descriptor_, kSizes, &clock_).ok()); }

  const int descriptor_;
  common::ManualClock clock_;
};

TEST_F(ProgressFileTest, TheReaderSeesWhatTheWriterIsAt) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->DescribePosition(), "");
  EXPECT_EQ((*reader)->outcome().state, OutcomeState::kNone);

  (*writer)->SetLabels({{"load", "forward block 0"}, {"load", "loss"}});
  (*writer)->SetStep(17);
  (*writer)->Begin(0, 0, 1, {});
  (*writer)->Begin(2, 1, 1, {});
  EXPECT_EQ((*reader)->step(), 17);
  EXPECT_EQ((*reader)->Current(0), "forward block 0");
  EXPECT_EQ((*reader)->Current(2), "loss");
  EXPECT_EQ((*reader)->Current(1), "");
  EXPECT_EQ((*reader)->DescribePosition(), "step 17, 'loss'");
  const uint64_t ticks = (*reader)->ticks();
  (*writer)->End(2);
  EXPECT_EQ((*reader)->Current(2), "");
  EXPECT_GT((*reader)->ticks(), ticks);
  EXPECT_EQ((*reader)->Latest(), "loss");
}

TEST_F(ProgressFileTest, WhatIsInFlightHasItsAgeItsGroupAndItsPlaceInTheGroup) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok());
  (*writer)->SetLabels({{"forward", "reduce"}});
  (*writer)->SetGroups({"world", "data"});
  (*writer)->SetPhase(Phase::kTraining);
  clock_.Advance(5);
  (*writer)->Begin(0, 0, 0, {});
  clock_.Advance(1);
  (*writer)->Begin(2, 0, 1, {.group = 1});
  clock_.Advance(1);
  (*writer)->End(2);
  (*writer)->Begin(2, 0, 1, {.group = 1});
  EXPECT_EQ((*reader)->phase(), Phase::kTraining);
  EXPECT_EQ((*reader)->phase_begin(), 0);
  const std::vector<ProgressReader::Activity> found = (*reader)->Activities();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].label, "forward");
  EXPECT_EQ(found[0].group, "");
  EXPECT_EQ(found[0].begin, 5);
  EXPECT_EQ(found[0].slowest, 0);
  EXPECT_EQ(found[1].label, "reduce");
  EXPECT_EQ(found[1].group, "data");
  EXPECT_EQ(found[1].begin, 7);
  EXPECT_EQ(found[1].slowest, 1);
  EXPECT_EQ(found[1].sequence, 2u);
  EXPECT_EQ((*reader)->Begun("data", 2), 2u);
  EXPECT_EQ((*reader)->Begun("data", 1), 0u);
  EXPECT_EQ((*reader)->Begun("nobody", 2), 0u);
}

TEST_F(ProgressFileTest, FileOperationsTickAtTheirBeginAndEnd) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE((*reader)->in_storage_operation());
  EXPECT_EQ((*reader)->storage_tick(), 0);
  (*writer)->Begin(0, 0, 0, {.storage = true});
  (*writer)->Begin(1, 0, 0, {});
  EXPECT_TRUE((*reader)->Activities().at(0).storage);
  EXPECT_FALSE((*reader)->Activities().at(1).storage);
  clock_.Advance(5);
  (*writer)->BeginStorage();
  (*writer)->BeginStorage();  // on another thread
  clock_.Advance(2);
  (*writer)->EndStorage();
  clock_.Advance(1);
  EXPECT_TRUE((*reader)->in_storage_operation());
  EXPECT_EQ((*reader)->storage_tick(), 7);
  (*writer)->EndStorage();
  EXPECT_FALSE((*reader)->in_storage_operation());
  EXPECT_EQ((*reader)->storage_tick(), 8);
}

TEST_F(ProgressFileTest, AnInstructionsSlowestExecutionIsForgottenAfterTwoWindows) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok());
  (*writer)->SetLabels({{"forward"}});
  const auto run = [&](int64_t step, double seconds) {
    (*writer)->SetStep(step);
    (*writer)->Begin(0, 0, 0, {});
    clock_.Advance(seconds);
    (*writer)->End(0);
  };
  const auto slowest = [&] {
    (*writer)->Begin(1, 0, 0, {});
    return (*reader)->Activities().at(0).slowest;
  };
  run(1, 8);
  EXPECT_EQ(slowest(), 8);
  for (int64_t step = 2; step < kSlowestWindowSteps; ++step) run(step, 0.5);
  EXPECT_EQ(slowest(), 8);
  run(kSlowestWindowSteps, 0.5);
  EXPECT_EQ(slowest(), 8);
  run(2 * kSlowestWindowSteps, 0.25);
  EXPECT_EQ(slowest(), 0.5);
}

TEST_F(ProgressFileTest, TheOutcomeOutlivesTheWriter) {
  {
    auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
    ASSERT_TRUE(writer.ok());
    (*writer)->SetOutcome(OutcomeState::kFailed, 1, std::string(5000, 'x'));
  }
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->outcome().state, OutcomeState::kFailed);
  EXPECT_EQ((*reader)->outcome().exit_code, 1);
  EXPECT_EQ((*reader)->outcome().message, std::string(kOutcomeMessageBytes - 1, 'x'));
}

TEST_F(ProgressFileTest, LabelsBeyondTheCapacityAreCutOffAndNumbered) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  (*writer)->SetLabels({{"a", "b", std::string(100, 'c')}, {"d", "e", "f"}});
  auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok());
  (*writer)->Begin(0, 0, 2, {});
  EXPECT_EQ((*reader)->Current(0), std::string(kLabelBytes - 1, 'c'));
  (*writer)->Begin(0, 1, 1, {});
  EXPECT_EQ((*reader)->Current(0), "e");
  (*writer)->Begin(0, 1, 2, {});
  EXPECT_EQ((*reader)->Current(0), "instruction 2");
}

TEST_F(ProgressFileTest, TheRingIsSharedAndAligned) {
  auto writer = ProgressWriter::Create(descriptor_, kSizes, &clock_);
  ASSERT_TRUE(writer.ok());
  ASSERT_EQ((*writer)->ring().size(), 300u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*writer)->ring().data()) % 64, 0u);
  (*writer)->ring()[299] = std::byte{42};
  std::byte last{};
  ASSERT_EQ(pread(descriptor_, &last, 1, static_cast<off_t>(ProgressRingOffset(kSizes) + 299)), 1);
  EXPECT_EQ(last, std::byte{42});
}

TEST_F(ProgressFileTest, AFileWithoutARecordIsNotReadyYet) {
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(ftruncate(descriptor_, 8192), 0);
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ProgressFileTest, AnotherMagicVersionOrSizeIsRefused) {
  WriteRecord();
  Overwrite(0, "X", 1);
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kInvalidArgument);
  WriteRecord();
  const uint32_t version = kProgressVersion + 1;
  Overwrite(offsetof(ProgressHeader, version), &version, sizeof(version));
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kInvalidArgument);
  WriteRecord();
  ASSERT_EQ(ftruncate(descriptor_, 4096), 0);
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(ftruncate(descriptor_, 100), 0);
  EXPECT_EQ(ProgressReader::Open(descriptor_).status().code(), absl::StatusCode::kInvalidArgument);
}

// By its user, who has it open for writing.
TEST_F(ProgressFileTest, AFileThatIsShortenedWhileItIsReadHarmsNobody) {
  WriteRecord();
  const auto reader = ProgressReader::Open(descriptor_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const uint64_t position = EncodePosition(0, 0);
  Overwrite(offsetof(ProgressHeader, latest), &position, sizeof(position));
  EXPECT_NE((*reader)->DescribePosition(), "");
  for (const off_t size : {4000, 2991, 0}) {
    ASSERT_EQ(ftruncate(descriptor_, size), 0);
    EXPECT_EQ((*reader)->outcome().state, OutcomeState::kNone);
    EXPECT_TRUE((*reader)->Activities().empty());
    EXPECT_EQ((*reader)->phase(), Phase::kStarting);
    EXPECT_EQ((*reader)->Begun("world", 0), 0u);
  }
  EXPECT_EQ((*reader)->ticks(), 0u);
  EXPECT_EQ((*reader)->DescribePosition(), "");
}

TEST_F(ProgressFileTest, GarbageBehindAGoodStartIsReadWithoutHarm) {
  for (uint64_t round = 0; round < 500; ++round) {
    WriteRecord();
    const size_t first = offsetof(ProgressHeader, first_label);
    std::string garbage(ProgressFileBytes(kSizes) - first, '\0');
    for (size_t i = 0; i < garbage.size(); ++i) {
      garbage[i] = static_cast<char>(common::MixBits(round, i));
    }
    Overwrite(static_cast<off_t>(first), garbage.data(), garbage.size());
    auto reader = ProgressReader::Open(descriptor_);
    ASSERT_TRUE(reader.ok());
    EXPECT_LT((*reader)->DescribePosition().size(), 200u);
    EXPECT_LT((*reader)->outcome().message.size(), kOutcomeMessageBytes + 1);
    for (const auto& activity : (*reader)->Activities()) {
      EXPECT_LE(activity.label.size(), kLabelBytes);
      EXPECT_LE(activity.group.size(), kGroupNameBytes);
      EXPECT_TRUE(std::isfinite(activity.begin) && std::isfinite(activity.slowest));
    }
    EXPECT_STRNE(Name((*reader)->phase()), "");
    for (int stream = -1; stream <= kProgressStreams; ++stream) (*reader)->Current(stream);
  }
}

}  // namespace
}  // namespace strata::worker
