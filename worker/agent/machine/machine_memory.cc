#include "worker/agent/machine/machine_memory.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/numbers.h"
#include "common/small_file.h"

namespace strata::worker {
namespace {

// A limit that a control group's file holds; nothing for "max" and for files that are not there.
std::optional<int64_t> LimitIn(const std::string& path) {
  int64_t bytes = 0;
  const std::string text = common::TextOf(path);
  if (!absl::SimpleAtoi(text, &bytes) || bytes < 0) return std::nullopt;
  return bytes;
}

// Of the control group as this process sees it mounted: version 2, then version 1.
void ApplyControlGroup(MachineMemory& memory) {
  static constexpr const char* kFiles[][2] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& files : kFiles) {
    const std::optional<int64_t> limit = LimitIn(files[0]), used = LimitIn(files[1]);
    if (!limit.has_value() || !used.has_value() || *limit >= memory.total_bytes) continue;
    memory.total_bytes = *limit;
    memory.available_bytes = std::min(memory.available_bytes, std::max<int64_t>(0, *limit - *used));
  }
}

}  // namespace

std::optional<MachineMemory> ParseMemoryInfo(const std::string& text) {
  MachineMemory memory;
  bool available = false, total = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name, unit;
    int64_t kilobytes = 0;
    if (!(fields >> name >> kilobytes >> unit) || unit != "kB" || kilobytes < 0) continue;
    if (name == "MemAvailable:") {
      memory.available_bytes = kilobytes * 1024;
      available = true;
    } else if (name == "MemTotal:") {
      memory.total_bytes = kilobytes * 1024;
      total = true;
    }
  }
  if (!available || !total) return std::nullopt;
  return memory;
}

std::optional<MachineMemory> ReadMachineMemory() {
  std::optional<MachineMemory> memory = ParseMemoryInfo(common::TextOf("/proc/meminfo"));
  if (memory.has_value()) ApplyControlGroup(*memory);
  return memory;
}

}  // namespace strata::worker
