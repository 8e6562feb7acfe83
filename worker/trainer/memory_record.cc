#include "worker/trainer/memory_record.h"

#include <malloc.h>

#include "absl/strings/str_cat.h"
#include "memory/process_memory.h"

namespace strata::worker {
namespace {

program::Tier TierOf(const v1::TierBytes& bytes) {
  for (int t = 0; t < program::kTierCount; ++t) {
    const program::Tier tier = static_cast<program::Tier>(t);
    if (bytes.tier() == program::Name(tier)) return tier;
  }
  return program::Tier::kHost;
}

}  // namespace

void MemoryRecord::MarkOverhead() {
  // What compiling left in the heap is given back, so that the overhead is what stays.
  malloc_trim(0);
  if (const auto now = memory::ReadProcessMemory(); now.ok()) {
    overhead_bytes_ = now->resident_bytes;
  }
  // Where it is refused, the mark counts from the start of the process, which only makes the
  // comparison stricter.
  static_cast<void>(memory::ResetHighWater());
}

absl::Status MemoryRecord::CheckArenas(const Engine& engine) const {
  for (const v1::TierBytes& tier : predicted_) {
    const int64_t held = engine.arena_bytes(TierOf(tier));
    if (held == tier.bytes()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "tier ", tier.tier(), ": the arena holds ", held, " bytes, the plan says ", tier.bytes()));
  }
  return absl::OkStatus();
}

void MemoryRecord::Read(const Engine& engine,
                        google::protobuf::RepeatedPtrField<v1::TierMemory>* memory) {
  const auto now = memory::ReadProcessMemory();
  for (const v1::TierBytes& tier : predicted_) {
    v1::TierMemory* const entry = memory->Add();
    entry->set_tier(tier.tier());
    entry->set_predicted_bytes(tier.bytes());
    entry->set_arena_bytes(engine.arena_bytes(TierOf(tier)));
    if (TierOf(tier) == program::Tier::kSsd) {
      const memory::SsdCounters now = engine.ssd()->counters();
      entry->set_measured_bytes(engine.ssd()->bytes());
      entry->set_read_bytes(now.bytes_read - before_.bytes_read);
      entry->set_written_bytes(now.bytes_written - before_.bytes_written);
      entry->set_total_written_bytes(now.bytes_written);
      before_ = now;
      continue;
    }
    // Of a CPU rank device and host are one process: what was measured stands with the host.
    if (TierOf(tier) == program::Tier::kDevice || !now.ok()) continue;
    entry->set_measured_bytes(now->high_water_bytes);
    entry->set_overhead_bytes(overhead_bytes_);
  }
}

}  // namespace strata::worker
