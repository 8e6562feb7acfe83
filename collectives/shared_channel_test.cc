#include "collectives/shared_channel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace strata::collectives {
namespace {

class SharedChannelTest : public testing::Test {
 protected:
  std::unique_ptr<ChannelMemory> memory_ = std::make_unique<ChannelMemory>();
  ChannelSender sender_{memory_.get()};
  ChannelReceiver receiver_{memory_.get()};
  bool sound_ = true;
};

TEST_F(SharedChannelTest, Messages_UpToTheCopiedSize_AreCopiedAndOthersPointedAt) {
  const std::vector<std::byte> bytes(3 * kCopiedBytes, std::byte{7});
  for (const int64_t size : {int64_t{0}, kInCellBytes, kInCellBytes + 1, kCopiedBytes}) {
    bool copied = false;
    sender_.Send(size, bytes.data(), size, &copied);
    EXPECT_TRUE(copied) << size;
    ChannelCell cell;
    ASSERT_TRUE(receiver_.Next(&cell, &sound_));
    EXPECT_EQ(cell.bytes, size);
    EXPECT_EQ(std::memcmp(receiver_.Copied(cell), bytes.data(), size), 0);
  }
  bool copied = true;
  sender_.Send(1, bytes.data(), kCopiedBytes + 1, &copied);
  EXPECT_FALSE(copied);
  ChannelCell cell;
  ASSERT_TRUE(receiver_.Next(&cell, &sound_));
  EXPECT_EQ(cell.address, reinterpret_cast<uint64_t>(bytes.data()));
}

TEST_F(SharedChannelTest, Ids_AllOnTheirWay_ThereIsRoomAgainWhenOneIsTaken) {
  bool copied = false;
  uint32_t copies = 0;
  while (sender_.HasRoom()) {
    sender_.Send(0, "x", 1, &copied);
    copies += copied;
  }
  EXPECT_EQ(copies, kCopiedIds);
  std::vector<ChannelCell> cells(kChannelIds);
  for (ChannelCell& cell : cells) ASSERT_TRUE(receiver_.Next(&cell, &sound_));
  EXPECT_FALSE(receiver_.Next(&cells[0], &sound_));
  receiver_.Answer(cells[500].id, true);
  receiver_.Answer(cells[500].id, false);
  ChannelAnswer answer;
  ASSERT_TRUE(sender_.Next(&answer, &sound_));
  EXPECT_TRUE(answer.wanted);
  EXPECT_FALSE(sender_.HasRoom());
  ASSERT_TRUE(sender_.Next(&answer, &sound_));
  EXPECT_TRUE(sender_.HasRoom());
  EXPECT_EQ(sender_.Send(0, "y", 1, &copied), cells[500].id);
}

TEST_F(SharedChannelTest, WhatTheOtherSideCannotHaveWritten_IsUnsound) {
  ChannelAnswer answer;
  for (const uint32_t id : {5u, kChannelIds}) {
    receiver_.Answer(id, false);
    EXPECT_FALSE(sender_.Next(&answer, &sound_));
    EXPECT_FALSE(sound_) << id;
  }
  ChannelCell cell;
  for (const ChannelCell& bad : {ChannelCell{.bytes = -1}, ChannelCell{.id = kChannelIds},
                                 ChannelCell{.bytes = kCopiedBytes + 1, .copied = 1},
                                 ChannelCell{.bytes = 1, .id = kCopiedIds, .copied = 1}}) {
    bool copied = false;
    sender_.Send(0, nullptr, 0, &copied);
    memory_->cells[memory_->sent - 1] = bad;
    EXPECT_FALSE(receiver_.Next(&cell, &sound_));
    EXPECT_FALSE(sound_);
  }
}

// What each side does before it would sleep; the other one's exchange ends it.
template <typename Ready>
void SleepUntil(std::atomic<uint32_t>& sleeps, const Ready& ready) {
  sleeps.store(1, std::memory_order_seq_cst);
  while (!ready() && sleeps.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  sleeps.store(0, std::memory_order_seq_cst);
}

constexpr int kMessages = 2'000;

int64_t SizeOf(int number) {
  const uint64_t bits = common::MixBits(1, number);
  return bits % 8 == 0 ? static_cast<int64_t>(bits >> 8) % (3 * kChunkBytes)
                       : static_cast<int64_t>(bits >> 8) % (2 * kCopiedBytes);
}

uint8_t ByteOf(int number) { return static_cast<uint8_t>(common::MixBits(2, number)); }

// Sends all, passing what is wanted through chunks.
void SendAll(ChannelMemory* memory) {
  ChannelSender sender(memory);
  std::vector<std::vector<uint8_t>> kept(kChannelIds);
  std::vector<uint32_t> wanted;
  int64_t filled = 0;
  int sent = 0, taken = 0;
  while (taken < kMessages) {
    bool moved = false, sound = true, copied = false;
    if (sent < kMessages && sender.HasRoom()) {
      std::vector<uint8_t> bytes(SizeOf(sent), ByteOf(sent));
      const uint32_t id = sender.Send(sent, bytes.data(), SizeOf(sent), &copied);
      kept[id] = copied ? std::vector<uint8_t>() : std::move(bytes);
      ++sent;
      moved = true;
    }
    for (ChannelAnswer answer; sender.Next(&answer, &sound);) {
      moved = true;
      if (answer.wanted) {
        wanted.push_back(answer.id);
      } else {
        ++taken;
      }
    }
    ASSERT_TRUE(sound);
    if (std::byte* const chunk = wanted.empty() ? nullptr : sender.FreeChunk(); chunk != nullptr) {
      const std::vector<uint8_t>& from = kept[wanted.front()];
      const int64_t size = std::min<int64_t>(kChunkBytes, from.size() - filled);
      std::memcpy(chunk, from.data() + filled, size);
      sender.Fill();
      filled += size;
      moved = true;
      if (filled == static_cast<int64_t>(from.size())) {
        wanted.erase(wanted.begin());
        filled = 0;
      }
    }
    sender.MustRing();
    if (moved) continue;
    SleepUntil(memory->sender_sleeps, [&] {
      return sender.HasAnswer() || (!wanted.empty() && sender.FreeChunk() != nullptr);
    });
  }
}

// Takes messages in another order than they came.
TEST(SharedChannelThreadsTest, TwoThreads_AllMessagesArriveWhole_InAnyOrderOfTaking) {
  auto memory = std::make_unique<ChannelMemory>();
  std::thread sending([&] { SendAll(memory.get()); });
  ChannelReceiver receiver(memory.get());
  std::vector<ChannelCell> waiting;
  int next = 0, taken = 0;
  while (taken < kMessages) {
    bool sound = true, moved = false;
    for (ChannelCell cell; receiver.Next(&cell, &sound); moved = true) {
      EXPECT_EQ(cell.tag, static_cast<uint64_t>(next++));
      waiting.push_back(cell);
    }
    ASSERT_TRUE(sound);
    if (!waiting.empty()) {
      moved = true;
      const size_t which = common::MixBits(3, taken) % waiting.size();
      const ChannelCell cell = waiting[which];
      waiting.erase(waiting.begin() + which);
      const auto number = static_cast<int>(cell.tag);
      std::vector<uint8_t> bytes(SizeOf(number));
      ASSERT_EQ(cell.bytes, SizeOf(number));
      if (cell.copied != 0) {
        std::memcpy(bytes.data(), receiver.Copied(cell), bytes.size());
      } else if (!bytes.empty()) {
        receiver.Answer(cell.id, true);
        receiver.MustRing();
        for (size_t at = 0; at < bytes.size();) {
          const std::byte* const chunk = receiver.FullChunk();
          if (chunk == nullptr) {
            SleepUntil(memory->receiver_sleeps, [&] { return receiver.FullChunk() != nullptr; });
            continue;
          }
          const size_t size = std::min<size_t>(kChunkBytes, bytes.size() - at);
          std::memcpy(bytes.data() + at, chunk, size);
          receiver.Empty();
          receiver.MustRing();
          at += size;
        }
      }
      receiver.Answer(cell.id, false);
      ++taken;
      ASSERT_EQ(std::count(bytes.begin(), bytes.end(), ByteOf(number)), SizeOf(number)) << number;
    }
    receiver.MustRing();
    if (!moved) SleepUntil(memory->receiver_sleeps, [&] { return receiver.HasCell(); });
  }
  sending.join();
}

}  // namespace
}  // namespace strata::collectives
