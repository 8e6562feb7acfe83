// Frames: how processes of Strata speak protos over a stream of bytes. A frame is a 4-byte
// little-endian length, then that many bytes of one serialised message, at most kMaxFrameBytes.
#ifndef STRATA_PROTOCOL_FRAMES_H_
#define STRATA_PROTOCOL_FRAMES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"

namespace strata::protocol {

inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr size_t kMaxFrameBytes = size_t{64} << 20;

// Appends one frame to `out`. InvalidArgument: the message is too large; `out` is as it was.
absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string* out);

// Cuts a stream of bytes into frames. Holds at most one frame and what was added after it.
class FrameDecoder {
 public:
  void Add(const char* bytes, size_t size) { buffer_.append(bytes, size); }

  // Parses the next whole frame into `message`; false while there is none. InvalidArgument: a
  // length beyond the limit, or bytes that are no such message: the stream is of no use any more.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite* message);

  // Bytes of a frame that has begun; at the end of a stream these are lost.
  size_t pending() const { return buffer_.size() - begin_; }

 private:
  std::string buffer_;
  size_t begin_ = 0;  // of the next frame
};

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_FRAMES_H_
