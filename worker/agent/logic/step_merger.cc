#include "worker/agent/logic/step_merger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

int64_t Load(const v1::TierMemory& memory) {
  return memory.measured_bytes() - memory.overhead_bytes();
}

// Where pages lie differs by node: what any rank lacks is not lost with the one that has less load.
void KeepLacks(const v1::TierMemory& other, v1::TierMemory& kept) {
  if (other.has_misplaced_bytes()) {
    kept.set_misplaced_bytes(std::max(kept.misplaced_bytes(), other.misplaced_bytes()));
  }
  if (kept.lacks().empty() && !other.lacks().empty()) {
    kept.set_lacks(other.lacks());
    kept.set_locked_bytes(std::min(kept.locked_bytes(), other.locked_bytes()));
  }
}

void KeepWorse(const v1::TierMemory& memory, v1::StepRecord& record) {
  for (v1::TierMemory& known : *record.mutable_memory()) {
    if (known.tier() != memory.tier()) continue;
    v1::TierMemory other = memory;
    if (Load(other) > Load(known)) known.Swap(&other);
    KeepLacks(other, known);
    return;
  }
  *record.add_memory() = memory;
}

}  // namespace

absl::StatusOr<std::optional<v1::StepRecord>> StepMerger::Add(int rank,
                                                              const v1::StepRecord& report) {
  if (report.step() != newest_[rank] + 1) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " reported step ", report.step(),
                                                   " after step ", newest_[rank]));
  }
  newest_[rank] = report.step();
  Partial& partial = steps_[report.step()];
  v1::StepRecord merged = rank == 0 ? report : partial.record;
  const v1::StepRecord& other = rank == 0 ? partial.record : report;
  for (const v1::TierMemory& memory : other.memory()) KeepWorse(memory, merged);
  merged.set_seconds(std::max(merged.seconds(), other.seconds()));
  merged.set_exposed_communication_seconds(
      std::max(merged.exposed_communication_seconds(), other.exposed_communication_seconds()));
  partial.record = std::move(merged);
  if (++partial.reports < static_cast<int>(newest_.size())) return std::nullopt;
  std::optional<v1::StepRecord> record = std::move(partial.record);
  steps_.erase(report.step());
  return record;
}

}  // namespace strata::worker
