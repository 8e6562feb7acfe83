// Streams between processes: frames, pieces of large messages, fragments of checkpoints. The first
// byte chooses, the second says how much arrives at once.
#include <algorithm>
#include <cstdint>
#include <string>

#include "common/check.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/standalone.pb.h"
#include "protocol/fragments.h"
#include "protocol/frames.h"
#include "protocol/parts.h"

namespace strata::protocol {
namespace {

void Frames(const char* bytes, size_t size, size_t at_once) {
  FrameDecoder decoder;
  v1::StandaloneRequest message;
  for (size_t done = 0; done < size; done += at_once) {
    decoder.Add(bytes + done, std::min(at_once, size - done));
    for (;;) {
      const auto next = decoder.Next(&message);
      if (!next.ok()) return;
      if (!*next) break;
      std::string again;
      STRATA_CHECK(AppendFrame(message, &again).ok());
    }
    STRATA_CHECK(decoder.pending() <= size);
  }
}

// Messages, each behind a byte that is its length.
void Parts(const char* bytes, size_t size) {
  Joiner<v1::AgentMessage> joiner(1 << 16);
  for (size_t at = 0; at < size;) {
    const size_t length = std::min<size_t>(static_cast<unsigned char>(bytes[at]), size - at - 1);
    v1::AgentMessage message;
    const bool parsed = message.ParseFromArray(bytes + at + 1, static_cast<int>(length));
    at += 1 + length;
    if (parsed && !joiner.Add(std::move(message)).ok()) return;
  }
}

void Fragments(const char* bytes, size_t size) {
  FragmentBook book;
  for (size_t at = 0; at + 3 <= size; at += 3) {
    google::protobuf::Map<int32_t, std::string> fragments;
    fragments[bytes[at]] = "a";
    fragments[bytes[at + 1]] = std::string(1, bytes[at + 2]);
    const int ranks = bytes[at + 2] & 7;
    const int64_t step = bytes[at + 1];
    book.Add(step, fragments, ranks);
    book.Newest(ranks);
    book.HasAllOf({0, ranks});
    book.CountAfter(step);
    if (bytes[at] == 7) book.Forget(step);
  }
}

}  // namespace
}  // namespace strata::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const char* bytes = reinterpret_cast<const char*>(data) + 2;
  if (data[0] == 'f') strata::protocol::Frames(bytes, size - 2, 1 + data[1]);
  if (data[0] == 'p') strata::protocol::Parts(bytes, size - 2);
  if (data[0] == 'g') strata::protocol::Fragments(bytes, size - 2);
  return 0;
}
