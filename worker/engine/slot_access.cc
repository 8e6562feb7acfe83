#include "worker/engine/slot_access.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {

using program::Stream;

void SlotAccess::Declare() {
  for (size_t s = 0; s < set_->slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!IsOnSsd(slot)) continue;
    const program::Placement& place = set_->placements[slot];
    for (int64_t copy = 0; copy < place.copies; ++copy) {
      ssd_->Use(place.offset + copy * place.stride, set_->slots[slot].bytes);
    }
  }
}

absl::Status SlotAccess::Read(int slot, int version, int64_t applied, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckSize(slot, to.size()));
  const std::byte* const from = addresses_->Bytes(slot, version, applied).data();
  if (IsOnSsd(slot)) return ssd_->Read(Stream::kCaller, addresses_->OffsetOnSsd(from), to);
  std::memcpy(to.data(), from, to.size());
  return absl::OkStatus();
}

absl::Status SlotAccess::Write(int slot, int version, int64_t applied,
                               absl::Span<const std::byte> from) {
  RETURN_IF_ERROR(CheckSize(slot, from.size()));
  std::byte* const to = addresses_->Bytes(slot, version, applied).data();
  if (IsOnSsd(slot)) return ssd_->Write(Stream::kCaller, addresses_->OffsetOnSsd(to), from);
  std::memcpy(to, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status SlotAccess::CheckSize(int slot, size_t bytes) const {
  if (static_cast<int64_t>(bytes) == set_->slots[slot].bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      set_->slots[slot].name, " has ", set_->slots[slot].bytes, " bytes to move, not ", bytes));
}

}  // namespace strata::worker
