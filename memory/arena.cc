#include "memory/arena.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::memory {

absl::StatusOr<Arena> Arena::Reserve(device::Device* device, device::Memory memory, int64_t bytes,
                                     bool fixed) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - kPageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("an arena cannot have ", bytes, " bytes"));
  }
  if (bytes == 0) return Arena();
  bytes = common::RoundUp(bytes, kPageBytes);
  ASSIGN_OR_RETURN(std::byte* const data, device->Reserve(memory, bytes));
  return Arena(device, memory, data, bytes, fixed && device->IsHostAccessible(memory));
}

absl::Status Arena::Commit() {
  if (data_ == nullptr) return absl::OkStatus();
  std::string lacks;
  const int node = fixed_ ? PreferNearNode(data_, bytes_, &lacks) : -1;
  RETURN_IF_ERROR(device_->Commit(memory_, data_, bytes_));
  if (fixed_) pages_ = FixPages(data_, bytes_, node, std::move(lacks));
  return absl::OkStatus();
}

Arena::Arena(Arena&& other) noexcept
    : device_(other.device_),
      memory_(other.memory_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fixed_(other.fixed_),
      pages_(std::move(other.pages_)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fixed_, other.fixed_);
  std::swap(pages_, other.pages_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) device_->Release(memory_, data_, bytes_);
}

}  // namespace strata::memory
