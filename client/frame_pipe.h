// Messages over a pipe to the worker: frames (protocol/frames.h) of
// proto/strata/v1/standalone.proto.
#ifndef STRATA_CLIENT_FRAME_PIPE_H_
#define STRATA_CLIENT_FRAME_PIPE_H_

#include <google/protobuf/message_lite.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/frames.h"

namespace strata::client {

// Writes one frame to `fd`, whole. InvalidArgument: it is too large; Unavailable: the reader is
// gone.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message);

// Reads once from `fd` (blocking only if `fd` does) and gives `frames` what came. False at the end
// of the stream.
absl::StatusOr<bool> ReadFrames(int fd, protocol::FrameDecoder& frames);

}  // namespace strata::client

#endif  // STRATA_CLIENT_FRAME_PIPE_H_
