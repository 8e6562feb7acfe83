#include "collectives/operation_ring.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace strata::collectives {
namespace {

constexpr uint64_t kMagic = 0x31676e6952706f53;  // "SopRing1"
constexpr size_t kWords = sizeof(OperationRecord) / sizeof(uint64_t);

bool Misaligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 64 != 0; }

}  // namespace

struct OperationRing::Header {
  uint64_t magic;
  uint32_t capacity;
  uint32_t record_bytes;
  std::atomic<uint64_t> begun;  // operations so far
  uint64_t unused[5];
};

// The record travels as relaxed atomic words between two changes of the version (Boehm, "Can
// seqlocks get along with programming language memory models?", MSPC 2012).
struct OperationRing::Slot {
  std::atomic<uint64_t> version;  // odd while written
  std::atomic<uint64_t> words[kWords];

  void Write(const OperationRecord& record) {
    uint64_t plain[kWords];
    std::memcpy(plain, &record, sizeof(record));
    const uint64_t old = version.load(std::memory_order_relaxed);
    version.store(old + 1, std::memory_order_relaxed);
    // Release on each word orders it after the odd version, without a fence (which TSan does not
    // model).
    for (size_t i = 0; i < kWords; ++i) words[i].store(plain[i], std::memory_order_release);
    version.store(old + 2, std::memory_order_release);
  }

  bool Read(OperationRecord* record) const {
    const uint64_t before = version.load(std::memory_order_acquire);
    uint64_t plain[kWords];
    for (size_t i = 0; i < kWords; ++i) plain[i] = words[i].load(std::memory_order_acquire);
    std::memcpy(record, plain, sizeof(*record));
    return before % 2 == 0 && before != 0 && version.load(std::memory_order_relaxed) == before;
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t OperationRing::RegionBytes(uint32_t capacity) {
  static_assert(sizeof(Header) == 64 && sizeof(Slot) == 64);
  return sizeof(Header) + size_t{capacity} * sizeof(Slot);
}

absl::StatusOr<OperationRing> OperationRing::Create(absl::Span<std::byte> region,
                                                    uint32_t capacity) {
  if (capacity == 0 || region.size() < RegionBytes(capacity) || Misaligned(region.data())) {
    return absl::InvalidArgumentError(absl::StrCat("an operation ring of ", capacity,
                                                   " records needs ", RegionBytes(capacity),
                                                   " bytes aligned to 64, not ", region.size()));
  }
  std::memset(region.data(), 0, RegionBytes(capacity));
  auto* header = new (region.data()) Header{};
  auto* slots = reinterpret_cast<Slot*>(region.data() + sizeof(Header));
  for (uint32_t i = 0; i < capacity; ++i) new (&slots[i]) Slot{};
  header->magic = kMagic;
  header->capacity = capacity;
  header->record_bytes = sizeof(OperationRecord);
  return OperationRing(header, slots);
}

uint64_t OperationRing::Begin(const OperationRecord& record) {
  const uint64_t number = header_->begun.load(std::memory_order_relaxed) + 1;
  OperationRecord numbered = record;
  numbered.number = number;
  slots_[number % header_->capacity].Write(numbered);
  header_->begun.store(number, std::memory_order_release);
  return number;
}

void OperationRing::End(uint64_t number, OperationState state, int64_t end_ns) {
  Slot& slot = slots_[number % header_->capacity];
  OperationRecord record;
  if (!slot.Read(&record) || record.number != number) return;
  record.state = static_cast<uint32_t>(state);
  record.end_ns = end_ns;
  slot.Write(record);
}

absl::StatusOr<std::vector<OperationRecord>> ReadOperations(absl::Span<const std::byte> region) {
  if (region.size() < sizeof(OperationRing::Header) || Misaligned(region.data())) {
    return absl::InvalidArgumentError("not an operation ring: too small or misaligned");
  }
  const auto* header = reinterpret_cast<const OperationRing::Header*>(region.data());
  const uint32_t capacity = header->capacity;
  if (header->magic != kMagic || header->record_bytes != sizeof(OperationRecord) || capacity == 0 ||
      region.size() < OperationRing::RegionBytes(capacity)) {
    return absl::InvalidArgumentError("not an operation ring of this build");
  }
  const auto* slots =
      reinterpret_cast<const OperationRing::Slot*>(region.data() + sizeof(OperationRing::Header));
  std::vector<OperationRecord> records;
  for (uint32_t i = 0; i < capacity; ++i) {
    OperationRecord record;
    if (slots[i].Read(&record)) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const OperationRecord& a, const OperationRecord& b) { return a.number < b.number; });
  return records;
}

}  // namespace strata::collectives
