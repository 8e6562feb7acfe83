// Memory that direct I/O reaches.
#ifndef STRATA_MEMORY_SSD_BLOCK_BUFFER_H_
#define STRATA_MEMORY_SSD_BLOCK_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/types/span.h"

namespace strata::memory {

inline constexpr int64_t kSsdBlockBytes = 4096;  // direct I/O moves whole blocks to whole addresses

// At a block's address, with room for whole blocks; what is in it is undefined at first.
class BlockBuffer {
 public:
  BlockBuffer() = default;  // without bytes
  explicit BlockBuffer(int64_t bytes)
      : size_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(
            kSsdBlockBytes, (bytes + kSsdBlockBytes - 1) / kSsdBlockBytes * kSsdBlockBytes))) {}

  int64_t size() const { return size_; }  // bytes, as given
  std::byte* data() const { return data_.get(); }
  absl::Span<std::byte> bytes() const { return {data(), static_cast<size_t>(size_)}; }
  // The same as numbers.
  absl::Span<float> floats() const {
    return {reinterpret_cast<float*>(data()), static_cast<size_t>(size_) / sizeof(float)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  int64_t size_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_BLOCK_BUFFER_H_
