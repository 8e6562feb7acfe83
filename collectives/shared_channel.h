// One direction of messages between two processes of a host, in memory that both have mapped.
//
// A message is a cell, written by the sender in order. Each has an id of the sender's from its cell
// until the receiver's answer "taken"; cells, answers and copies have room for all ids, so nothing
// here overflows, nothing waits for room, and messages may be taken in any order.
//   up to kInCellBytes     the bytes stand in the cell
//   up to kCopiedBytes     while one of the few ids for it is free, they stand in the id's copy
//   others                 stay in the sender's memory until taken: the receiver reads them there
//   by
//                          the cell's address, or, where the kernel does not let it, answers
//                          "wanted", and the sender passes them through chunks, in the order of
//                          these answers
// A side that is about to sleep says so, then looks once more; the other, after it has written
// something, rings if it finds that said. Both are sequentially consistent, so one sees the other.
//
// What the other side writes is not trusted: an id or a length that cannot be ends in an error.
#ifndef STRATA_COLLECTIVES_SHARED_CHANNEL_H_
#define STRATA_COLLECTIVES_SHARED_CHANNEL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace strata::collectives {

inline constexpr uint32_t kChannelIds = 1024;  // messages on their way at once
inline constexpr uint32_t kCopiedIds = 64;     // the first of them, for copies
inline constexpr int64_t kInCellBytes = 32;
inline constexpr int64_t kCopiedBytes = 4096;
inline constexpr uint32_t kChunks = 4;
inline constexpr int64_t kChunkBytes = 128 << 10;

struct ChannelCell {
  uint64_t tag = 0;
  int64_t bytes = 0;
  uint64_t address = 0;  // in the sender, of what was not copied
  uint32_t id = 0;
  uint32_t copied = 0;  // 1: the sender is done with it
  std::array<std::byte, kInCellBytes> in_cell;
};
static_assert(sizeof(ChannelCell) == 64);

// What tells the receiver that this is the sender's, of this epoch, and whether it can read its
// memory: `probe` is the value at `probe_address`.
struct ChannelLabel {
  static constexpr uint64_t kMagic = 0x312d6d6873727473;  // "strshm-1", little-endian
  uint64_t magic = kMagic;
  int64_t epoch = 0;
  int32_t from = 0, to = 0;
  uint64_t probe_address = 0, probe = 0;
};

struct alignas(4096) ChannelMemory {
  ChannelLabel label;                      // by the sender, before the receiver maps it
  std::atomic<uint32_t> given_up = 0;      // by the sender: what is in its memory counts no more
  alignas(64) std::atomic<uint64_t> sent;  // cells
  alignas(64) std::atomic<uint64_t> answered;  // answers, by the receiver
  alignas(64) std::atomic<uint64_t> filled;    // chunks
  alignas(64) std::atomic<uint64_t> emptied;   // chunks, by the receiver
  alignas(64) std::atomic<uint32_t> sender_sleeps;
  alignas(64) std::atomic<uint32_t> receiver_sleeps;
  alignas(64) std::array<ChannelCell, kChannelIds> cells;
  std::array<uint32_t, 2 * kChannelIds> answers;  // id, and kWanted
  alignas(4096) std::byte copies[kCopiedIds][kCopiedBytes];
  alignas(4096) std::byte chunks[kChunks][kChunkBytes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct ChannelAnswer {
  uint32_t id = 0;
  bool wanted = false;  // else taken
};

// The sender's end. Of one thread, as is the receiver's.
class ChannelSender {
 public:
  explicit ChannelSender(ChannelMemory* memory);

  bool HasRoom() const { return free_small_ > 0 || free_large_ > 0; }
  // The message's id; `copied`: `from` is not needed any more. Only while there is room.
  uint32_t Send(uint64_t tag, const void* from, int64_t bytes, bool* copied);

  // The next answer, if there is one; "taken" frees its id. False in `sound`: it cannot be.
  bool Next(ChannelAnswer* answer, bool* sound);
  bool HasAnswer() const;

  // A chunk to write to, in order; null while all are full.
  std::byte* FreeChunk();
  void Fill();

  void SetSleeps(bool sleeps);
  // Whether the other side sleeps and has not been rung for; it must be, then.
  bool MustRing();
  void GiveUp();

 private:
  ChannelMemory* const memory_;
  uint64_t sent_ = 0, answers_ = 0, filled_ = 0;
  uint32_t free_small_ = 0, free_large_ = 0;
  std::array<uint32_t, kCopiedIds> small_;
  std::array<uint32_t, kChannelIds - kCopiedIds> large_;
  std::array<bool, kChannelIds> used_ = {};
};

class ChannelReceiver {
 public:
  explicit ChannelReceiver(ChannelMemory* memory) : memory_(memory) {}

  // Copies the next cell, if there is one; its bytes stay where they are until its id is answered
  // "taken". False in `sound`: it cannot be.
  bool Next(ChannelCell* cell, bool* sound);
  bool HasCell() const;
  // Of a cell whose message was copied.
  static const std::byte* Copied(const ChannelMemory& memory, const ChannelCell& cell);
  const std::byte* Copied(const ChannelCell& cell) const { return Copied(*memory_, cell); }
  void Answer(uint32_t id, bool wanted);

  // The next chunk that was filled; null: none is.
  const std::byte* FullChunk();
  void Empty();

  void SetSleeps(bool sleeps);
  bool MustRing();
  bool GivenUp() const;

 private:
  ChannelMemory* const memory_;
  uint64_t cells_ = 0, answered_ = 0, emptied_ = 0;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_SHARED_CHANNEL_H_
