#include "collectives/shared_channel.h"

#include <cstring>

#include "common/check.h"

namespace strata::collectives {
namespace {

constexpr uint32_t kWanted = uint32_t{1} << 31;

bool Rings(std::atomic<uint32_t>& sleeps) {
  return sleeps.load(std::memory_order_seq_cst) != 0 &&
         sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace

ChannelSender::ChannelSender(ChannelMemory* memory) : memory_(memory) {
  for (uint32_t id = kChannelIds; id-- > 0;) {
    (id < kCopiedIds ? small_[free_small_++] : large_[free_large_++]) = id;
  }
}

uint32_t ChannelSender::Send(uint64_t tag, const void* from, int64_t bytes, bool* copied) {
  const bool small = free_small_ > 0 && (bytes <= kCopiedBytes || free_large_ == 0);
  STRATA_CHECK(HasRoom());
  const uint32_t id = small ? small_[--free_small_] : large_[--free_large_];
  used_[id] = true;
  *copied = id < kCopiedIds && bytes <= kCopiedBytes;
  ChannelCell& cell = memory_->cells[sent_ % kChannelIds];
  cell.tag = tag;
  cell.bytes = bytes;
  cell.address = reinterpret_cast<uint64_t>(from);
  cell.id = id;
  cell.copied = *copied;
  if (*copied && bytes > 0) {
    std::memcpy(bytes <= kInCellBytes ? cell.in_cell.data() : memory_->copies[id], from, bytes);
  }
  memory_->sent.store(++sent_, std::memory_order_seq_cst);
  return id;
}

bool ChannelSender::HasAnswer() const {
  return memory_->answered.load(std::memory_order_seq_cst) != answers_;
}

bool ChannelSender::Next(ChannelAnswer* answer, bool* sound) {
  *sound = true;
  if (memory_->answered.load(std::memory_order_acquire) == answers_) return false;
  const uint32_t word = memory_->answers[answers_++ % memory_->answers.size()];
  *answer = {.id = word & ~kWanted, .wanted = (word & kWanted) != 0};
  *sound = answer->id < kChannelIds && used_[answer->id];
  if (!*sound || answer->wanted) return *sound;
  used_[answer->id] = false;
  if (answer->id < kCopiedIds) {
    small_[free_small_++] = answer->id;
  } else {
    large_[free_large_++] = answer->id;
  }
  return true;
}

std::byte* ChannelSender::FreeChunk() {
  const uint64_t full = filled_ - memory_->emptied.load(std::memory_order_seq_cst);
  return full >= kChunks ? nullptr : memory_->chunks[filled_ % kChunks];
}

void ChannelSender::Fill() { memory_->filled.store(++filled_, std::memory_order_seq_cst); }

void ChannelSender::SetSleeps(bool sleeps) {
  memory_->sender_sleeps.store(sleeps, std::memory_order_seq_cst);
}

bool ChannelSender::MustRing() { return Rings(memory_->receiver_sleeps); }

void ChannelSender::GiveUp() { memory_->given_up.store(1, std::memory_order_release); }

bool ChannelReceiver::HasCell() const {
  return memory_->sent.load(std::memory_order_seq_cst) != cells_;
}

bool ChannelReceiver::Next(ChannelCell* cell, bool* sound) {
  *sound = true;
  if (memory_->sent.load(std::memory_order_acquire) == cells_) return false;
  *cell = memory_->cells[cells_++ % kChannelIds];
  *sound = cell->id < kChannelIds && cell->bytes >= 0 &&
           (cell->copied == 0 || (cell->id < kCopiedIds && cell->bytes <= kCopiedBytes));
  return *sound;
}

const std::byte* ChannelReceiver::Copied(const ChannelMemory& memory, const ChannelCell& cell) {
  return cell.bytes <= kInCellBytes ? cell.in_cell.data() : memory.copies[cell.id];
}

void ChannelReceiver::Answer(uint32_t id, bool wanted) {
  memory_->answers[answered_ % memory_->answers.size()] = wanted ? id | kWanted : id;
  memory_->answered.store(++answered_, std::memory_order_seq_cst);
}

const std::byte* ChannelReceiver::FullChunk() {
  const bool full = memory_->filled.load(std::memory_order_seq_cst) != emptied_;
  return full ? memory_->chunks[emptied_ % kChunks] : nullptr;
}

void ChannelReceiver::Empty() { memory_->emptied.store(++emptied_, std::memory_order_seq_cst); }

void ChannelReceiver::SetSleeps(bool sleeps) {
  memory_->receiver_sleeps.store(sleeps, std::memory_order_seq_cst);
}

bool ChannelReceiver::MustRing() { return Rings(memory_->sender_sleeps); }

bool ChannelReceiver::GivenUp() const {
  return memory_->given_up.load(std::memory_order_acquire) != 0;
}

}  // namespace strata::collectives
