#include "protocol/frames.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace strata::protocol {
namespace {

void PutLength(uint32_t length, char* out) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) out[i] = static_cast<char>(length >> (8 * i));
}

uint32_t GetLength(const char* bytes) {
  uint32_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

}  // namespace

absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string* out) {
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        message.GetTypeName(), " of ", size, " bytes: a frame holds at most ", kMaxFrameBytes));
  }
  const size_t begin = out->size();
  out->resize(begin + kFrameHeaderBytes);
  PutLength(static_cast<uint32_t>(size), out->data() + begin);
  if (!message.AppendToString(out)) {
    out->resize(begin);
    return absl::InvalidArgumentError(
        absl::StrCat(message.GetTypeName(), ": cannot be serialised"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FrameDecoder::Next(google::protobuf::MessageLite* message) {
  if (pending() < kFrameHeaderBytes) return false;
  const size_t size = GetLength(buffer_.data() + begin_);
  if (size > kMaxFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", size, " bytes, more than ",
                                                   kMaxFrameBytes, ": not Strata's protocol"));
  }
  if (pending() < kFrameHeaderBytes + size) return false;
  const char* const body = buffer_.data() + begin_ + kFrameHeaderBytes;
  if (!message->ParseFromArray(body, static_cast<int>(size))) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of ", size, " bytes: not a ", message->GetTypeName()));
  }
  begin_ += kFrameHeaderBytes + size;
  if (pending() == 0 || begin_ >= (size_t{64} << 10)) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return true;
}

}  // namespace strata::protocol
