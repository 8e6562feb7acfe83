#include "client/local_cluster/process_id.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/small_file.h"

namespace strata::client {
namespace {

std::string ProcFile(pid_t pid, absl::string_view name) {
  return common::TextOf(absl::StrCat("/proc/", pid, "/", name));
}

}  // namespace

std::optional<ProcessId> ProcessWithPid(pid_t pid) {
  // proc(5): after the program's name in parentheses come the state and, as field 22, the start.
  const std::string stat = ProcFile(pid, "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStart = 19;  // field 22, counted from the state's 3
  uint64_t start = 0;
  if (fields.size() <= kStart || !absl::SimpleAtoi(fields[kStart], &start)) return std::nullopt;
  if (fields[0] == "Z" || fields[0] == "X") return std::nullopt;
  return ProcessId{pid, start};
}

bool IsAlive(const ProcessId& process) { return ProcessWithPid(process.pid) == process; }

int OpenProcess(const ProcessId& process) {
  if (process.pid <= 0) return -1;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));  // close-on-exec
  if (fd < 0) return -1;
  if (IsAlive(process)) return fd;  // so it is this one that the descriptor stands for
  close(fd);
  return -1;
}

bool SendSignal(const ProcessId& process, int signal) {
  const int fd = OpenProcess(process);
  if (fd < 0) return false;
  const absl::Cleanup closer = [fd] { close(fd); };
  return syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
}

std::string BootId() {
  return std::string(absl::StripAsciiWhitespace(common::TextOf("/proc/sys/kernel/random/boot_id")));
}

std::vector<ProcessId> ProcessesWith(absl::string_view variable, absl::string_view name_prefix) {
  std::vector<ProcessId> found;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (auto at = std::filesystem::directory_iterator("/proc", error); !error && at != end;
       at.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(at->path().filename().string(), &pid) || pid == getpid()) continue;
    const std::string arguments = ProcFile(pid, "cmdline");
    bool named = false;
    int index = 0;
    for (absl::string_view argument : absl::StrSplit(arguments, '\0')) {
      if (index++ == 2) break;
      const size_t slash = argument.rfind('/');
      if (slash != absl::string_view::npos) argument.remove_prefix(slash + 1);
      named |= absl::StartsWith(argument, name_prefix);
    }
    if (!named) continue;
    const std::string environment = ProcFile(pid, "environ");
    for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
      if (entry != variable) continue;
      if (const auto process = ProcessWithPid(pid); process.has_value()) found.push_back(*process);
      break;
    }
  }
  return found;
}

}  // namespace strata::client
