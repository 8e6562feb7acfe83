#include "memory/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace strata::memory {
namespace {

constexpr char kStatusFile[] = "/proc/self/status";
constexpr char kClearFile[] = "/proc/self/clear_refs";

int Open(const char* path, int flags) {
  int file;
  do {
    file = open(path, flags | O_CLOEXEC);
  } while (file < 0 && errno == EINTR);
  return file;
}

absl::StatusOr<std::string> ReadStatusFile() {
  const int file = Open(kStatusFile, O_RDONLY);
  if (file < 0) {
    return absl::InternalError(absl::StrCat(kStatusFile, ": ", std::strerror(errno)));
  }
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      close(file);
      return absl::InternalError(absl::StrCat(kStatusFile, ": ", std::strerror(error)));
    }
    if (count == 0) break;
    text.append(buffer, count);
  }
  close(file);
  return text;
}

// The figure of a line such as "VmRSS:	    5120 kB".
std::optional<int64_t> FindBytes(absl::string_view text, absl::string_view key) {
  const size_t begin = text.find(absl::StrCat("\n", key, ":"));
  if (begin == absl::string_view::npos) return std::nullopt;
  absl::string_view line = text.substr(begin + key.size() + 2);
  line = absl::StripAsciiWhitespace(line.substr(0, line.find('\n')));
  int64_t kibibytes = 0;
  if (!absl::ConsumeSuffix(&line, " kB") || !absl::SimpleAtoi(line, &kibibytes)) {
    return std::nullopt;
  }
  return kibibytes * 1024;
}

}  // namespace

absl::StatusOr<ProcessMemory> ReadProcessMemory() {
  ASSIGN_OR_RETURN(const std::string text, ReadStatusFile());
  const std::optional<int64_t> resident = FindBytes(text, "VmRSS");
  const std::optional<int64_t> high_water = FindBytes(text, "VmHWM");
  if (!resident.has_value() || !high_water.has_value()) {
    return absl::InternalError(absl::StrCat(kStatusFile, " has no VmRSS or VmHWM"));
  }
  return ProcessMemory{*resident, *high_water};
}

absl::Status ResetHighWater() {
  const int file = Open(kClearFile, O_WRONLY);
  ssize_t written = -1;
  int error = errno;
  if (file >= 0) {
    do {
      written = write(file, "5", 1);
    } while (written < 0 && errno == EINTR);
    error = errno;
    close(file);
  }
  if (written == 1) return absl::OkStatus();
  const std::string text = absl::StrCat("cannot reset the memory high-water mark: ", kClearFile,
                                        ": ", std::strerror(error));
  return error == EACCES || error == EPERM ? absl::PermissionDeniedError(text)
                                           : absl::UnavailableError(text);
}

}  // namespace strata::memory
