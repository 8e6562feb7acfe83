// Slots on a device are filled from two buffers by turns.
#include "worker/trainer/slot_window.h"

#include <cstring>
#include <vector>

#include "device/standin/testing/cuda_test.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

class SlotFillerTest : public standin::CudaTest {};

TEST_F(SlotFillerTest, SlotsLargerThanABuffer_AreFilledPieceByPiece) {
  auto accelerator = CudaAccelerator::Create(0);
  ASSERT_TRUE(accelerator.ok()) << accelerator.status();
  Workshop shop(1, program::Tier::kDevice);
  shop.accelerator = accelerator->get();
  const int slots[] = {shop.Slot("a"), shop.Slot("b"), shop.HostSlot("near")};
  shop.assembler.BeginProgram("train");
  shop.Double(slots[0]);
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  Engine& engine = *rank->engine;
  // Of 64 bytes: in pieces of 24, 24, 16; more than a buffer; whole.
  for (const int64_t unit : {int64_t{8}, int64_t{32}}) {
    SlotFiller filler(engine, 0, /*buffer_bytes=*/28);
    std::vector<int64_t> pieces;
    for (const int slot : slots) {
      const absl::Status status =
          filler.Units(slot, unit, [&](int64_t offset, absl::Span<std::byte> bytes) {
            pieces.push_back(static_cast<int64_t>(bytes.size()));
            for (size_t i = 0; i < bytes.size(); ++i) {
              bytes[i] = static_cast<std::byte>(unit + 100 * slot + offset + i);
            }
            return absl::OkStatus();
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_TRUE(filler.Finish().ok());
    const std::vector<int64_t> by_buffers = {24, 24, 16, 24, 24, 16, 64}, by_copies = {64, 64, 64};
    EXPECT_EQ(pieces, unit == 8 ? by_buffers : by_copies);
    for (const int slot : slots) {
      std::vector<std::byte> bytes(64);
      ASSERT_TRUE(engine.slots().Read(slot, 0, 0, 0, absl::MakeSpan(bytes)).ok());
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(bytes[i], static_cast<std::byte>(unit + 100 * slot + i)) << slot << " " << i;
      }
    }
  }
}

TEST_F(SlotFillerTest, AWriteOutsideTheSlot_IsToldByTheNextOrAtTheEnd) {
  auto accelerator = CudaAccelerator::Create(0);
  ASSERT_TRUE(accelerator.ok()) << accelerator.status();
  Workshop shop(1, program::Tier::kDevice);
  shop.accelerator = accelerator->get();
  const int slot = shop.Slot("a");
  shop.assembler.BeginProgram("train");
  shop.Double(slot);
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  auto writer = rank->engine->slots().OpenWriter(128);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::memset((*writer)->buffer().data(), 1, 128);
  ASSERT_TRUE((*writer)->Write(slot, 0, 0, 0, 65).ok());
  EXPECT_EQ((*writer)->Write(slot, 0, 0, 0, 64).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->Write(slot, 0, 0, 32, 64).ok());
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE((*writer)->Finish().ok());
}

}  // namespace
}  // namespace strata::worker
