#include "client/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace strata::client {

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t most,
                                         absl::string_view kind) {
  const auto error = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what, "\n"));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return error(errno == ENOENT ? absl::StrCat("no such file — name a ", kind)
                                 : std::string(std::strerror(errno)));
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0) return error(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return error(absl::StrCat("is a directory — name a ", kind));
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) return error("is not a file");
  if (fcntl(fd, F_SETFL, 0) != 0) return error(std::strerror(errno));
  std::string text;
  std::vector<char> buffer(64 << 10);
  while (text.size() <= most) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(std::strerror(errno));
    if (got == 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace strata::client
