// Messages over a pipe: a 4-byte little-endian length, then one serialised message
// (proto/strata/v1/standalone.proto).
#ifndef STRATA_CLIENT_FRAMES_H_
#define STRATA_CLIENT_FRAMES_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::client {

inline constexpr size_t kMostFrameBytes = size_t{64} << 20;

// Writes one frame to `fd`, whole. Unavailable when the reader is gone.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  // Reads once from `fd` (blocking only if `fd` does) and keeps what came. False at the end of the
  // stream.
  absl::StatusOr<bool> Fill(int fd);

  // Takes the next whole frame into `message`; false when there is none yet. DataLoss when the
  // bytes are no frame.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite& message);

  // Whether the stream stands inside a frame.
  bool partial() const { return at_ < buffer_.size(); }

 private:
  std::string buffer_;
  size_t at_ = 0;  // bytes of buffer_ already taken
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_FRAMES_H_
