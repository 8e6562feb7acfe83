#include "worker/agent/machine/channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {

absl::Status SetNonBlocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::InternalError(absl::StrCat("fcntl(O_NONBLOCK): ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status FrameSender::Send(const google::protobuf::MessageLite& message) {
  RETURN_IF_ERROR(protocol::AppendFrame(message, &waiting_));
  return Flush();
}

absl::Status FrameSender::Flush() {
  size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t written = write(descriptor_, waiting_.data() + done, waiting_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      waiting_.clear();
      return absl::UnavailableError(absl::StrCat("write: ", strerror(errno)));
    }
  }
  waiting_.erase(0, done);
  return absl::OkStatus();
}

bool FrameReceiver::Read() {
  char bytes[64 << 10];
  for (;;) {
    const ssize_t size = read(descriptor_, bytes, sizeof(bytes));
    if (size > 0) {
      decoder_.Add(bytes, static_cast<size_t>(size));
      return true;
    }
    if (size == 0) return false;
    if (errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
}

}  // namespace strata::worker
