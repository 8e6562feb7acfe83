// One end of a conversation in frames that never blocks: the agent's ends towards its trainers and
// its client. What cannot be written at once waits here, and a caller that finds much waiting stops
// reading from whoever causes it.
#ifndef STRATA_WORKER_AGENT_MACHINE_CHANNEL_H_
#define STRATA_WORKER_AGENT_MACHINE_CHANNEL_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"
#include "protocol/frames.h"

namespace strata::worker {

// Makes reads and writes of a descriptor return at once.
absl::Status SetNonBlocking(int descriptor);

class FrameSender {
 public:
  // Much is waiting: the other side does not keep up.
  static constexpr size_t kCongestedBytes = size_t{4} << 20;

  // `descriptor` is non-blocking and stays the caller's.
  explicit FrameSender(int descriptor) : descriptor_(descriptor) {}

  // Sends, or keeps for Flush. Unavailable: the other side is gone; then all is dropped.
  absl::Status Send(const google::protobuf::MessageLite& message);
  // Sends what waits, as far as it goes.
  absl::Status Flush();
  bool idle() const { return waiting_.empty(); }
  bool congested() const { return waiting_.size() >= kCongestedBytes; }

 private:
  int descriptor_;
  std::string waiting_;
};

class FrameReceiver {
 public:
  explicit FrameReceiver(int descriptor) : descriptor_(descriptor) {}

  // Reads once, at most 64 KiB; false at the end of the stream (or when it broke), true also when
  // nothing was there.
  bool Read();
  // As FrameDecoder::Next.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite* message) {
    return decoder_.Next(message);
  }

 private:
  int descriptor_;
  protocol::FrameDecoder decoder_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_CHANNEL_H_
