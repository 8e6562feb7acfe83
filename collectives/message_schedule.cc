// Which messages each operation exchanges, as pure functions of (operation, group, round).
//
// In round r of a full exchange, member i sends to i + r and receives from i − r (modulo n), so
// that no member is everybody's target at once.
#include <bit>

#include "collectives/message_communicator.h"
#include "collectives/pieces.h"

namespace strata::collectives {
namespace {

const std::byte* Offset(const void* base, int64_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}
std::byte* Offset(void* base, int64_t bytes) { return static_cast<std::byte*>(base) + bytes; }

int RoundsOfTree(int n) { return n == 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

}  // namespace

// An all-reduce that sends its vector whole to everyone.
bool MessageCommunicator::SendsWhole(const Slot& slot) {
  const Operation& op = slot.operation;
  return op.kind == OpKind::kAllReduce &&
         AllReduceIsOneExchange(op.type, op.count, slot.group->size());
}

// A sum of pieces of at most as many others as have a receive of their own. Their pieces may stay
// where they are until they are added, and its own may be on their way still: adding writes none of
// these. (What is sent whole may be added in place.)
bool MessageCommunicator::AddsFromPeers(const Slot& slot) {
  const OpKind kind = slot.operation.kind;
  return (kind == OpKind::kReduceScatter || kind == OpKind::kAllReduce) && !SendsWhole(slot) &&
         slot.group->size() <= kWindow + 1;
}

// Where the piece of another member arrives: members in order, this one left out.
std::byte* MessageCommunicator::ScratchOf(const Slot& slot, int member) {
  const Operation& op = slot.operation;
  const int place = member < slot.group->index ? member : member - 1;
  return Offset(op.scratch, place * ScratchStride(op.kind, op.type, op.count, slot.group->size()));
}

int MessageCommunicator::Rounds(const Slot& slot, bool send) {
  const int n = slot.group->size();
  const Operation& op = slot.operation;
  switch (op.kind) {
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllReduce:
    case OpKind::kAllToAll:
      return n - 1;
    case OpKind::kRotate:
      return n > 1 ? 1 : 0;
    case OpKind::kBarrier:
      return RoundsOfTree(n);
    case OpKind::kBroadcast:
      // The one message in comes before those out: each has a round of its own.
      return send ? RoundsOfTree(n) : (n > 1 && op.peer != slot.group->index ? 1 : 0);
    case OpKind::kSend:
      return send ? 1 : 0;
    case OpKind::kReceive:
      return send ? 0 : 1;
  }
  return 0;
}

// Whether a round waits for all earlier messages of the operation.
bool MessageCommunicator::RoundsAreOrdered(const Slot& slot) {
  return slot.operation.kind == OpKind::kBarrier;
}

MessageCommunicator::Message MessageCommunicator::SendOf(const Slot& slot, int round) {
  const Operation& op = slot.operation;
  const int n = slot.group->size();
  const int i = slot.group->index;
  const int64_t element = ElementBytes(op.type);
  const int to = (i + round + 1) % n;
  switch (op.kind) {
    case OpKind::kAllGather:
      return {.peer = to, .from = op.in, .bytes = op.count * element};
    case OpKind::kRotate:
      return {.peer = to, .from = op.in, .bytes = op.count * element};
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll:
      return {
          .peer = to, .from = Offset(op.in, to * op.count * element), .bytes = op.count * element};
    case OpKind::kAllReduce: {
      if (SendsWhole(slot)) return {.peer = to, .from = op.in, .bytes = op.count * element};
      const bool gather = slot.stage == Stage::kGather;
      const Piece piece = PieceAt(PieceCount(op.type, op.count, n), op.count, gather ? i : to);
      return {.peer = to,
              .from = Offset(gather ? op.out : op.in, piece.begin * element),
              .bytes = piece.count * element};
    }
    case OpKind::kBroadcast: {
      // Relative to the root, member v receives from v with its highest bit cleared, then sends to
      // v + 2^k for every 2^k > v.
      const int v = (i - op.peer + n) % n;
      const int64_t child = v + (int64_t{1} << round);
      if ((1 << round) <= v || child >= n) return {};
      return {.peer = static_cast<int>((child + op.peer) % n),
              .from = op.out,
              .bytes = op.count * element};
    }
    case OpKind::kSend:
      return {.peer = op.peer, .from = op.in, .bytes = op.count * element};
    case OpKind::kBarrier:
      return {.peer = (i + (1 << round)) % n};
    case OpKind::kReceive:
      break;
  }
  return {};
}

MessageCommunicator::Message MessageCommunicator::ReceiveOf(const Slot& slot, int round) {
  const Operation& op = slot.operation;
  const int n = slot.group->size();
  const int i = slot.group->index;
  const int64_t element = ElementBytes(op.type);
  const int from = (i - round - 1 + n) % n;
  switch (op.kind) {
    case OpKind::kRotate:
      return {.peer = from, .to = op.out, .bytes = op.count * element};
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      return {.peer = from,
              .to = Offset(op.out, from * op.count * element),
              .bytes = op.count * element};
    case OpKind::kReduceScatter:
      return {.peer = from, .to = ScratchOf(slot, from), .bytes = op.count * element};
    case OpKind::kAllReduce: {
      if (SendsWhole(slot))
        return {.peer = from, .to = ScratchOf(slot, from), .bytes = op.count * element};
      const bool gather = slot.stage == Stage::kGather;
      const Piece piece = PieceAt(PieceCount(op.type, op.count, n), op.count, gather ? from : i);
      return {.peer = from,
              .to = gather ? Offset(op.out, piece.begin * element) : ScratchOf(slot, from),
              .bytes = piece.count * element};
    }
    case OpKind::kBroadcast: {
      const unsigned v = (i - op.peer + n) % n;
      const int parent = static_cast<int>(v - std::bit_floor(v));
      return {.peer = (parent + op.peer) % n, .to = op.out, .bytes = op.count * element};
    }
    case OpKind::kReceive:
      return {.peer = op.peer, .to = op.out, .bytes = op.count * element};
    case OpKind::kBarrier:
      return {.peer = static_cast<int>((i - (int64_t{1} << round) % n + n) % n)};
    case OpKind::kSend:
      break;
  }
  return {};
}

}  // namespace strata::collectives
