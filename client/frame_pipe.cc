#include "client/frame_pipe.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::client {

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message) {
  std::string frame;
  RETURN_IF_ERROR(protocol::AppendFrame(message, &frame));
  size_t written = 0;
  while (written < frame.size()) {
    const ssize_t count = write(fd, frame.data() + written, frame.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot write to the pipe: ", std::strerror(errno)));
    }
    written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReadFrames(int fd, protocol::FrameDecoder& frames) {
  std::vector<char> chunk(64 << 10);
  while (true) {
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read from the pipe: ", std::strerror(errno)));
    }
    frames.Add(chunk.data(), static_cast<size_t>(count));
    return count > 0;
  }
}

}  // namespace strata::client
