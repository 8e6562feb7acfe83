#include "client/frames.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::client {
namespace {

constexpr size_t kHeader = 4;

}  // namespace

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > kMostFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", size, " bytes is too large"));
  }
  std::string frame(kHeader, '\0');
  for (size_t i = 0; i < kHeader; ++i) frame[i] = static_cast<char>((size >> (8 * i)) & 0xff);
  message.AppendToString(&frame);
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

absl::StatusOr<bool> FrameReader::Fill(int fd) {
  if (at_ > 0) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  std::vector<char> chunk(64 << 10);
  while (true) {
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read from the pipe: ", std::strerror(errno)));
    }
    buffer_.append(chunk.data(), static_cast<size_t>(count));
    return count > 0;
  }
}

absl::StatusOr<bool> FrameReader::Next(google::protobuf::MessageLite& message) {
  if (buffer_.size() - at_ < kHeader) return false;
  size_t size = 0;
  for (size_t i = 0; i < kHeader; ++i) {
    size |= size_t{static_cast<uint8_t>(buffer_[at_ + i])} << (8 * i);
  }
  if (size > kMostFrameBytes) {
    return absl::DataLossError(absl::StrCat("a frame of ", size, " bytes: not Strata's protocol"));
  }
  if (buffer_.size() - at_ < kHeader + size) return false;
  if (!message.ParseFromArray(buffer_.data() + at_ + kHeader, static_cast<int>(size))) {
    return absl::DataLossError("a frame that does not hold the expected message");
  }
  at_ += kHeader + size;
  return true;
}

}  // namespace strata::client
