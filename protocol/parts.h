// Messages of a session that are larger than one of its transport may be: cut into pieces by one
// side, put together by the other (MessagePart).
#ifndef STRATA_PROTOCOL_PARTS_H_
#define STRATA_PROTOCOL_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::protocol {

// Bytes of a message's serialised form that go in one piece; well below what gRPC takes at once.
inline constexpr size_t kPartBytes = size_t{1} << 20;
inline constexpr size_t kMostMessageBytes = size_t{1} << 30;

// Cuts a serialised message; `number` is its own in this direction of the session.
std::vector<v1::MessagePart> CutBytes(uint64_t number, const std::string& bytes);

// Puts the pieces of one message after the other together. It holds no more than has come, and no
// more than its limit. After an error the session cannot go on. Used by one thread.
class PartBook {
 public:
  explicit PartBook(size_t most_bytes = kMostMessageBytes) : most_bytes_(most_bytes) {}

  // The message's serialised form with its last piece. InvalidArgument: a piece out of order, or of
  // an impossible size; ResourceExhausted: the message is larger than the limit.
  absl::StatusOr<std::optional<std::string>> Add(v1::MessagePart part);
  // A message has begun: only its next piece may come.
  bool begun() const { return next_ > 0; }

 private:
  const size_t most_bytes_;
  std::string bytes_;
  uint64_t message_ = 0;
  int next_ = 0, count_ = 0;
};

// What stands in each message of a session beside its content.
inline void CopyEnvelope(const v1::AgentMessage& from, v1::AgentMessage& to) {
  to.set_incarnation(from.incarnation());
}
inline void CopyEnvelope(const v1::ControllerMessage& from, v1::ControllerMessage& to) {
  to.set_controller_term(from.controller_term());
}

// What is to be written for `message`: itself, or its pieces. ResourceExhausted: it is larger than
// any message may be. Message: v1::AgentMessage or v1::ControllerMessage.
template <typename Message>
absl::StatusOr<std::vector<Message>> Cut(Message message, uint64_t number) {
  const size_t size = message.ByteSizeLong();
  if (size > kMostMessageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a message of ", size, " bytes"));
  }
  std::vector<Message> pieces;
  if (size <= kPartBytes) {
    pieces.push_back(std::move(message));
    return pieces;
  }
  for (v1::MessagePart& part : CutBytes(number, message.SerializeAsString())) {
    CopyEnvelope(message, pieces.emplace_back());
    *pieces.back().mutable_part() = std::move(part);
  }
  return pieces;
}

// The other side of Cut: takes what was read, and gives whole messages. Used by one thread.
template <typename Message>
class Joiner {
 public:
  explicit Joiner(size_t most_bytes = kMostMessageBytes) : book_(most_bytes) {}

  // Nothing: more pieces are to come. Errors as PartBook::Add; InvalidArgument also: another
  // message between the pieces of one, or bytes that are no message, or again a piece.
  absl::StatusOr<std::optional<Message>> Add(Message message) {
    if (!message.has_part()) {
      if (book_.begun()) return absl::InvalidArgumentError("a message inside another one's pieces");
      return std::optional<Message>(std::move(message));
    }
    absl::StatusOr<std::optional<std::string>> bytes =
        book_.Add(std::move(*message.mutable_part()));
    if (!bytes.ok()) return bytes.status();
    if (!bytes->has_value()) return std::optional<Message>();
    std::optional<Message> whole(std::in_place);
    if (!whole->ParseFromString(**bytes) || whole->has_part()) {
      return absl::InvalidArgumentError("the pieces are no message");
    }
    CopyEnvelope(message, *whole);
    return whole;
  }

 private:
  PartBook book_;
};

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_PARTS_H_
