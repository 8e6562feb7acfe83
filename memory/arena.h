// Arena: the bytes of one tier of host memory, sized once.
#ifndef STRATA_MEMORY_ARENA_H_
#define STRATA_MEMORY_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace strata::memory {

inline constexpr int64_t kPageBytes = 4096;

// Anonymous zeroed memory of whole pages, all of them present from the beginning, so that what the
// operating system counts is the arena's size. Huge pages are used inside where the system gives
// them.
class Arena {
 public:
  Arena() = default;  // of no bytes
  // `bytes` >= 0 is rounded up to whole pages. InvalidArgument: negative; ResourceExhausted, with
  // the size: the system has no such room (a memory limit of the container ends the process
  // instead, as the system decides).
  static absl::StatusOr<Arena> Create(int64_t bytes);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::byte* data() const { return data_; }  // aligned to a page; null when empty
  int64_t bytes() const { return bytes_; }

 private:
  Arena(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_ARENA_H_
