#include "worker/shared/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

constexpr int kBacklog = 64;

absl::Status PathError(const std::string& path, const char* action) {
  const std::string text = absl::StrCat(path, ": ", strerror(errno), " (", action, ")");
  const bool absent = errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN;
  return absent ? absl::UnavailableError(text) : absl::InternalError(text);
}

// An address has room for a short path only: the folder is named by a descriptor.
class ShortPath {
 public:
  explicit ShortPath(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_ = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    const std::string text = absl::StrCat("/proc/self/fd/", folder_, "/", name);
    address_.sun_family = AF_UNIX;
    fits_ = text.size() < sizeof(address_.sun_path);
    if (fits_) std::memcpy(address_.sun_path, text.c_str(), text.size() + 1);
  }
  ~ShortPath() {
    if (folder_ >= 0) close(folder_);
  }
  ShortPath(const ShortPath&) = delete;
  ShortPath& operator=(const ShortPath&) = delete;

  bool usable() {
    if (folder_ >= 0 && !fits_) errno = ENAMETOOLONG;
    return folder_ >= 0 && fits_;
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);

 private:
  int folder_ = -1;
  bool fits_ = false;
  sockaddr_un address_{};
};

}  // namespace

absl::StatusOr<int> ListenAt(const std::string& path) {
  ShortPath short_path(path);
  if (!short_path.usable()) return PathError(path, "open folder");
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return PathError(path, "socket");
  unlink(path.c_str());
  if (bind(listener, short_path.address(), ShortPath::kSize) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(listener, kBacklog) != 0) {
    const absl::Status status = PathError(path, "listen");
    close(listener);
    return status;
  }
  return listener;
}

absl::StatusOr<int> ConnectTo(const std::string& path) {
  ShortPath short_path(path);
  if (!short_path.usable()) return PathError(path, "open folder");
  const int connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connected < 0) return PathError(path, "socket");
  if (connect(connected, short_path.address(), ShortPath::kSize) != 0) {
    const absl::Status status = PathError(path, "connect");
    close(connected);
    return status;
  }
  return connected;
}

}  // namespace strata::worker
