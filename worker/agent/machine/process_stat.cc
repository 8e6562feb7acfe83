#include "worker/agent/machine/process_stat.h"

#include <filesystem>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/small_file.h"

namespace strata::worker {
namespace {

constexpr int kStartTimeField = 22;  // proc(5), counted from 1; the state is field 3

}  // namespace

std::optional<ProcessStat> ParseProcessStat(const std::string& text) {
  // The name stands in parentheses and may hold any bytes, parentheses too.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  if (!(fields >> stat.state)) return std::nullopt;
  std::string field;
  for (int number = 4; number <= kStartTimeField; ++number) {
    if (!(fields >> field)) return std::nullopt;
  }
  if (!absl::SimpleAtoi(field, &stat.start_time)) return std::nullopt;
  return stat;
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  return ParseProcessStat(common::TextOf(absl::StrCat("/proc/", pid, "/stat")));
}

bool HasThreadInState(pid_t pid, char state) {
  std::error_code error;
  std::filesystem::directory_iterator thread(absl::StrCat("/proc/", pid, "/task"), error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const std::optional<ProcessStat> stat =
        ParseProcessStat(common::TextOf((thread->path() / "stat").string()));
    if (stat.has_value() && stat->state == state) return true;
  }
  return false;
}

std::string BootId() {
  return std::string(absl::StripSuffix(common::TextOf("/proc/sys/kernel/random/boot_id"), "\n"));
}

}  // namespace strata::worker
