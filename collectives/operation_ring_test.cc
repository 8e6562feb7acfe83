#include "collectives/operation_ring.h"

#include <cstring>
#include <thread>

#include "gtest/gtest.h"

namespace strata::collectives {
namespace {

OperationRecord RecordOf(uint64_t sequence) {
  return {.number = 0,
          .sequence = sequence,
          .group = 3,
          .op = 2,
          .peer = -1,
          .state = 0,
          .bytes = static_cast<int64_t>(sequence) * 7,
          .begin_ns = static_cast<int64_t>(sequence) * 11,
          .end_ns = 0};
}

TEST(OperationRingTest, Read_AfterMoreThanItsCapacity_KeepsTheLatestInOrder) {
  alignas(64) std::byte memory[1024];
  auto ring = OperationRing::Create(memory, 4);
  ASSERT_TRUE(ring.ok()) << ring.status();
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(ring->Begin(RecordOf(i)), i + 1);
  ring->End(9, OperationState::kDone, 999);
  ring->End(2, OperationState::kFailed, 111);  // long overwritten
  const auto records = ReadOperations(memory);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*records)[i].number, i + 7);
    EXPECT_EQ((*records)[i].sequence, i + 6);
    EXPECT_EQ((*records)[i].bytes, static_cast<int64_t>(i + 6) * 7);
    EXPECT_EQ((*records)[i].state, i == 2 ? 1u : 0u);
    EXPECT_EQ((*records)[i].end_ns, i == 2 ? 999 : 0);
  }
}

TEST(OperationRingTest, Create_InARegionThatIsTooSmallOrMisaligned_IsRefused) {
  alignas(64) std::byte memory[256];
  EXPECT_FALSE(OperationRing::Create(memory, 0).ok());
  EXPECT_FALSE(OperationRing::Create(memory, 4).ok());
  EXPECT_FALSE(OperationRing::Create(absl::MakeSpan(memory).subspan(8), 1).ok());
  EXPECT_TRUE(OperationRing::Create(memory, 3).ok());
}

TEST(OperationRingTest, Read_OfDamagedRegions_IsRefused) {
  alignas(64) std::byte memory[256];
  ASSERT_TRUE(OperationRing::Create(memory, 3).ok());
  EXPECT_FALSE(ReadOperations(absl::MakeConstSpan(memory).first(32)).ok());
  EXPECT_FALSE(ReadOperations(absl::MakeConstSpan(memory).first(192)).ok());
  for (const size_t at : {0, 8, 12}) {
    std::byte damaged[256 + 64];
    auto* aligned = damaged + (64 - reinterpret_cast<uintptr_t>(damaged) % 64) % 64;
    std::memcpy(aligned, memory, sizeof(memory));
    aligned[at + 3] ^= std::byte{0x40};
    EXPECT_FALSE(ReadOperations({aligned, sizeof(memory)}).ok()) << at;
  }
}

TEST(OperationRingTest, Read_WhileAnotherThreadWrites_SeesNoTornRecord) {
  alignas(64) std::byte memory[1024];
  auto ring = OperationRing::Create(memory, 4);
  ASSERT_TRUE(ring.ok()) << ring.status();
  std::thread writer([&] {
    for (uint64_t i = 0; i < 20'000; ++i) {
      ring->End(ring->Begin(RecordOf(i)), OperationState::kDone, static_cast<int64_t>(i) * 13);
    }
  });
  uint64_t seen = 0;
  while (seen < 20'000) {
    const auto records = ReadOperations(memory);
    ASSERT_TRUE(records.ok());
    for (const OperationRecord& record : *records) {
      ASSERT_EQ(record.number, record.sequence + 1);
      ASSERT_EQ(record.bytes, static_cast<int64_t>(record.sequence) * 7);
      ASSERT_EQ(record.begin_ns, static_cast<int64_t>(record.sequence) * 11);
      const int64_t end = static_cast<int64_t>(record.sequence) * 13;
      ASSERT_EQ(record.end_ns, record.state == 1 ? end : 0);
      seen = std::max(seen, record.number);
    }
    std::this_thread::yield();
  }
  writer.join();
}

}  // namespace
}  // namespace strata::collectives
