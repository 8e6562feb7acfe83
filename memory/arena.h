// Arena: the bytes of one tier of memory, sized once.
#ifndef STRATA_MEMORY_ARENA_H_
#define STRATA_MEMORY_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/device.h"
#include "memory/fixed_pages.h"

namespace strata::memory {

inline constexpr int64_t kPageBytes = 4096;

// Zeroed memory of whole pages, all of them present from Commit on, so that what the operating
// system counts is the arena's size. Before, there are addresses only, to which programs can be
// bound.
class Arena {
 public:
  Arena() = default;  // of no bytes
  // `bytes` >= 0 is rounded up to whole pages; `device` is borrowed. `fixed`: of memory that the
  // host reaches, locked and near the processor of the thread that commits it, as far as the system
  // lets it (pages()). InvalidArgument: negative; ResourceExhausted, with the size: the system has
  // no such room.
  static absl::StatusOr<Arena> Reserve(device::Device* device, device::Memory memory, int64_t bytes,
                                       bool fixed = false);
  // Once. ResourceExhausted, with the size (a memory limit of the container ends the process
  // instead, as the system decides).
  absl::Status Commit();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }  // aligned to a page; null when empty
  int64_t bytes() const { return bytes_; }
  // Of one that is fixed, once it is committed; of others nothing is known.
  const PageReport& pages() const { return pages_; }

 private:
  Arena(device::Device* device, device::Memory memory, std::byte* data, int64_t bytes, bool fixed)
      : device_(device), memory_(memory), data_(data), bytes_(bytes), fixed_(fixed) {}

  device::Device* device_ = nullptr;
  device::Memory memory_ = device::Memory::kHost;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  bool fixed_ = false;
  PageReport pages_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_ARENA_H_
