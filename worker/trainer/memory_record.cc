#include "worker/trainer/memory_record.h"

#include <malloc.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "memory/process_memory.h"

namespace strata::worker {
namespace {

// When a device is asked what it holds: in the first steps, in which graphs are made, and now and
// then from there on.
constexpr int64_t kFirstReads = 4, kReadsApart = 64;

program::Tier TierOf(const v1::TierBytes& bytes) {
  for (int t = 0; t < program::kTierCount; ++t) {
    const program::Tier tier = static_cast<program::Tier>(t);
    if (bytes.tier() == program::Name(tier)) return tier;
  }
  return program::Tier::kHost;
}

void AddPages(const memory::PageReport& pages, v1::TierMemory& entry) {
  if (pages.bytes == 0) return;
  entry.set_locked_bytes(pages.locked_bytes);
  entry.set_huge_bytes(pages.huge_bytes);
  if (pages.node >= 0 && pages.misplaced_bytes >= 0) {
    entry.set_misplaced_bytes(pages.misplaced_bytes);
  }
  if (!pages.lacks.empty()) entry.set_lacks(pages.lacks);
}

void AddPath(const std::string& directory, const memory::PathCounters& now,
             const memory::PathCounters& before, v1::TierMemory& entry) {
  v1::PathTraffic& path = *entry.add_paths();
  path.set_path(directory);
  path.set_read_bytes(now.bytes_read - before.bytes_read);
  path.set_written_bytes(now.bytes_written - before.bytes_written);
  path.set_total_read_bytes(now.bytes_read);
  path.set_total_written_bytes(now.bytes_written);
  path.set_read_seconds(now.read_seconds - before.read_seconds);
  path.set_write_seconds(now.write_seconds - before.write_seconds);
  const double busy = now.busy_seconds - before.busy_seconds;
  if (busy > 0) {
    path.set_mean_queue_depth((now.request_seconds - before.request_seconds) / busy);
  }
  path.set_most_queue_depth(now.most_in_flight);
}

// `before`: of the same store, or none.
void AddTraffic(const memory::SsdStore& store, const memory::SsdCounters& now,
                const memory::SsdCounters& before, v1::TierMemory& entry) {
  entry.set_measured_bytes(store.bytes());
  entry.set_read_bytes(now.bytes_read - before.bytes_read);
  entry.set_written_bytes(now.bytes_written - before.bytes_written);
  entry.set_total_read_bytes(now.bytes_read);
  entry.set_total_written_bytes(now.bytes_written);
  entry.set_busiest_read_bytes(now.io.busiest_read_bytes);
  entry.set_busiest_written_bytes(now.io.busiest_written_bytes);
  entry.set_processor_seconds(now.processor_seconds - before.processor_seconds);
  for (size_t p = 0; p < now.paths.size(); ++p) {
    AddPath(store.paths()[p].directory, now.paths[p],
            p < before.paths.size() ? before.paths[p] : memory::PathCounters(), entry);
  }
}

}  // namespace

int64_t MemoryRecord::DeviceBytes() const {
  return device_ == nullptr ? 0 : device_->UsedBytes().value_or(0);
}

void MemoryRecord::MarkOverhead() {
  device_overhead_bytes_ = DeviceBytes();
  for (const v1::TierBytes& tier : predicted_) {
    // Its addresses, which are bound, are taken with the memory itself.
    if (TierOf(tier) == program::Tier::kDevice) device_overhead_bytes_ -= tier.bytes();
  }
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

std::string MemoryRecord::Lacks(const Engine& engine) const {
  std::string lacks;
  for (const v1::TierBytes& tier : predicted_) {
    const std::string& own = engine.pages(TierOf(tier)).lacks;
    if (own.empty()) continue;
    absl::StrAppend(&lacks, lacks.empty() ? "" : "; ", tier.tier(), ": ", own);
  }
  return lacks;
}

void MemoryRecord::ReadTransfers(const StepMetrics& metrics,
                                 google::protobuf::RepeatedPtrField<v1::Transfer>* transfers) {
  using program::Stream;
  for (const Stream stream :
       {Stream::kFetch, Stream::kEvict, Stream::kSsdRead, Stream::kSsdWrite, Stream::kUpdateFetch,
        Stream::kUpdateEvict, Stream::kUpdateRead, Stream::kUpdateWrite}) {
    const int s = static_cast<int>(stream);
    moved_[s] += metrics.moved[s];
    if (moved_[s] == 0) continue;
    v1::Transfer* const transfer = transfers->Add();
    transfer->set_stream(program::Name(stream));
    transfer->set_bytes(metrics.moved[s]);
    transfer->set_total_bytes(moved_[s]);
    transfer->set_seconds(metrics.moving[s]);
    transfer->set_stall_seconds(metrics.stalled[s]);
  }
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
      memory::SsdStore& store = *engine.ssd();
      memory::SsdCounters counters = store.counters();
      store.BeginPeriod();
      AddTraffic(store, counters, before_, *entry);
      entry->set_write_rate(write_rate_);
      write_rate_ = store.write_rate();
      before_ = std::move(counters);
      continue;
    }
    AddPages(engine.pages(TierOf(tier)), *entry);
    if (TierOf(tier) == program::Tier::kDevice && device_ != nullptr) {
      if (reads_ < kFirstReads || reads_ % kReadsApart == 0) device_bytes_ = DeviceBytes();
      ++reads_;
      entry->set_measured_bytes(device_bytes_);
      entry->set_overhead_bytes(device_overhead_bytes_);
    }
    // Of a CPU rank device and host are one process: what was measured stands with the host.
    if (TierOf(tier) == program::Tier::kDevice || !now.ok()) continue;
    entry->set_measured_bytes(now->high_water_bytes);
    entry->set_overhead_bytes(overhead_bytes_);
  }
}

}  // namespace strata::worker
