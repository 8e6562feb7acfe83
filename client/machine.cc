#include "client/machine.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/small_file.h"

namespace strata::client {

namespace fs = std::filesystem;

int UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int64_t FieldInKilobytes(absl::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name) || line.size() <= name.size() || line[name.size()] != ':') {
      continue;
    }
    line = absl::StripAsciiWhitespace(line.substr(name.size() + 1));
    int64_t value = 0;
    if (absl::SimpleAtoi(line.substr(0, line.find(' ')), &value)) return value * 1024;
  }
  return 0;
}

int64_t UsableMemory() {
  int64_t memory = FieldInKilobytes(common::TextOf("/proc/meminfo"), "MemTotal");
  // cgroup v2, then v1; "max" and the huge v1 default are no limits.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    const std::string text = common::TextOf(path);
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &limit) && limit > 0) {
      memory = memory == 0 ? limit : std::min(memory, limit);
    }
  }
  return memory;
}

double BusySeconds(absl::string_view stat) {
  // "cpu  user nice system idle iowait irq softirq steal …", in ticks (proc(5)).
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(0, stat.find('\n')), ' ', absl::SkipEmpty());
  if (fields.empty() || fields[0] != "cpu") return 0;
  constexpr size_t kIdle = 4, kWaiting = 5, kLast = 8;
  double ticks = 0;
  for (size_t i = 1; i <= kLast && i < fields.size(); ++i) {
    double value = 0;
    if (i != kIdle && i != kWaiting && absl::SimpleAtod(fields[i], &value)) ticks += value;
  }
  return ticks / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
}

OtherProcesses::Use OtherProcesses::Now() {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  Use use{.time = common::MonotonicClock().Now(),
          .busy = BusySeconds(common::TextOf("/proc/stat"))};
  for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(whose, &usage) == 0) use.own += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return use;
}

double OtherProcesses::Processors() const {
  const Use now = Now();
  if (UsableCores() < sysconf(_SC_NPROCESSORS_ONLN) || now.time <= begin_.time) return 0;
  const double others = now.busy - begin_.busy - (now.own - begin_.own);
  return std::max(0.0, others / (now.time - begin_.time));
}

int64_t ThreadsPerRank(int64_t ranks) {
  int64_t threads = 0;
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (variable != nullptr && absl::SimpleAtoi(variable, &threads) && threads > 0) return threads;
  return std::max<int64_t>(1, UsableCores() / std::max<int64_t>(1, ranks));
}

std::string BinaryFolder() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  const auto* started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (started_as == nullptr || fs::exists(own / "strata-worker", error)) return own.string();
  const fs::path beside = fs::absolute(started_as, error).parent_path();
  return (fs::exists(beside / "strata-worker", error) ? beside : own).string();
}

}  // namespace strata::client
