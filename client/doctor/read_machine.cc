#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/doctor/checks.h"
#include "client/machine.h"
#include "common/small_file.h"

namespace strata::client {
namespace {

// The text after the colon in the first line that begins with `name`.
std::string LineAfter(const std::string& text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (!absl::StartsWith(line, name) || colon == absl::string_view::npos) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

// The size of a file system and what is free of it for this user; -1 when there is none.
struct Space {
  int64_t size = -1;
  int64_t available = -1;
};

Space SpaceOf(const std::string& path) {
  struct statvfs info = {};
  if (statvfs(path.c_str(), &info) != 0) return {};
  const auto unit = static_cast<int64_t>(info.f_frsize);
  return {unit * static_cast<int64_t>(info.f_blocks), unit * static_cast<int64_t>(info.f_bavail)};
}

// Sets up a ring of one entry and closes it; 0 or errno.
int TryIoUring() {
  io_uring_params parameters = {};
  const long fd = syscall(SYS_io_uring_setup, 1, &parameters);
  if (fd < 0) return errno;
  close(static_cast<int>(fd));
  return 0;
}

void ReadLimits(MachineFacts& facts) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.locked_memory_limit = static_cast<int64_t>(limit.rlim_cur);
  }
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files_limit = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  }
}

void ReadBinaries(MachineFacts& facts) {
  facts.binary_folder = BinaryFolder();
  for (const char* name : {"strata-worker", "strata-trainer", "strata-controller"}) {
    const std::string path = absl::StrCat(facts.binary_folder, "/", name);
    if (access(path.c_str(), X_OK) != 0) facts.missing_binaries.emplace_back(name);
  }
}

}  // namespace

MachineFacts ReadMachine() {
  MachineFacts facts;
  const std::string cpu = common::TextOf("/proc/cpuinfo");
  facts.cpu_model = LineAfter(cpu, "model name");
  facts.cpu_flags = absl::StrCat(" ", LineAfter(cpu, "flags"), " ");
  facts.cores = UsableCores();
  const std::string memory = common::TextOf("/proc/meminfo");
  if (const int64_t usable = UsableMemory(); usable > 0) facts.memory = usable;
  if (!memory.empty()) facts.memory_available = FieldInKilobytes(memory, "MemAvailable");
  if (!absl::SimpleAtoi(LineAfter(memory, "HugePages_Total"), &facts.huge_page_count)) {
    facts.huge_page_count = 0;
  }
  facts.transparent_huge_pages = std::string(
      absl::StripAsciiWhitespace(common::TextOf("/sys/kernel/mm/transparent_hugepage/enabled")));
  ReadLimits(facts);
  facts.shared_memory = SpaceOf("/dev/shm").size;
  std::error_code error;
  facts.disk_folder = std::filesystem::current_path(error).string();
  facts.disk_free = SpaceOf(".").available;
  facts.io_uring_error = TryIoUring();
  ReadBinaries(facts);
  return facts;
}

}  // namespace strata::client
