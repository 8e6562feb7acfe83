#include "worker/agent/machine_memory.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::worker {

int64_t MachineMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemTotal:") return kilobytes * common::kKiB;
    std::getline(file, unit);
  }
  return 0;
}

absl::Status CheckMemory(const v1::JobPlan& plan, int ranks, int64_t machine_bytes) {
  if (machine_bytes == 0) return absl::OkStatus();
  for (const v1::TierBytes& tier : plan.predicted()) {
    const double needed = static_cast<double>(tier.bytes()) * ranks;
    if (tier.tier() != "host" || needed <= static_cast<double>(machine_bytes)) continue;
    const auto text = [](double bytes) { return common::FormatBytes(bytes); };
    return absl::ResourceExhaustedError(
        absl::StrCat("does not fit: ", ranks, ranks == 1 ? " rank x " : " ranks x ",
                     text(static_cast<double>(tier.bytes())), " of host memory = ", text(needed),
                     ", but this machine has ", text(static_cast<double>(machine_bytes)),
                     " — make train.micro_batch, train.sequence or the model smaller"));
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
