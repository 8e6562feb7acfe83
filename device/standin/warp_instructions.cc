// What lanes of a warp, and threads of a block, do together: shuffles, votes, reductions, barriers.
#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "device/standin/lane_math.h"

namespace strata::standin {
namespace {

enum Shuffle : int { kIndex, kUp, kDown, kButterfly };

// shfl.sync d|p, a, b, c, mask (PTX ISA, shfl.sync): the lane that a value comes from, or −1.
int SourceLane(int mode, int lane, int b, int c) {
  const int clamp = c & 31, segment = c >> 8 & 31;
  const int most = (lane & segment) | (clamp & ~segment & 31), least = lane & segment;
  switch (mode) {
    case kUp:
      return lane - b >= most ? lane - b : -1;
    case kDown:
      return lane + b <= most ? lane + b : -1;
    case kButterfly:
      return (lane ^ b) <= most ? lane ^ b : -1;
    default: {
      const int source = least | (b & ~segment & 31);
      return source <= most ? source : -1;
    }
  }
}

void ShuffleLanes(Warp& warp, const Instruction& in, uint32_t lanes) {
  uint64_t values[kLanes];
  const uint64_t* const a = warp.Row(in.rows[2]);
  std::copy(a, a + kLanes, values);
  ForEachLane(lanes, [&](int lane) {
    const int b = static_cast<int>(warp.Row(in.rows[3])[lane] & 31);
    int source = SourceLane(in.code, lane, b, static_cast<int>(warp.Row(in.rows[4])[lane]));
    const bool inside = source >= 0;
    if (!inside) source = lane;
    if ((lanes >> source & 1) == 0) {
      warp.Report(FindingKind::kShuffle, in, lane,
                  "a value from lane " + std::to_string(source) + ", which takes no part, used");
    }
    warp.Row(in.rows[0])[lane] = values[source] & 0xffffffff;
    warp.Row(in.rows[1])[lane] = inside;
  });
}

enum Vote : int { kAll, kAny, kUniform, kBallot };

// vote.sync d, a, mask
void VoteLanes(Warp& warp, const Instruction& in, uint32_t lanes) {
  uint32_t yes = 0;
  const uint64_t* const a = warp.Row(in.rows[1]);
  ForEachLane(lanes, [&](int lane) { yes |= static_cast<uint32_t>(a[lane] & 1) << lane; });
  const uint64_t result = in.code == kAll       ? yes == lanes
                          : in.code == kAny     ? yes != 0
                          : in.code == kUniform ? yes == lanes || yes == 0
                                                : yes;
  ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[0])[lane] = result; });
}

enum Reduction : int { kAdd, kMin, kMax, kAnd, kOr, kXor };

// redux.sync d, a, mask
void ReduceLanes(Warp& warp, const Instruction& in, uint32_t lanes) {
  const uint64_t* const a = warp.Row(in.rows[1]);
  const bool is_signed = in.type.base == Base::kSigned;
  uint32_t result = static_cast<uint32_t>(a[std::countr_zero(lanes)]);
  ForEachLane(lanes & (lanes - 1), [&](int lane) {
    const uint32_t value = static_cast<uint32_t>(a[lane]);
    const bool less =
        is_signed ? static_cast<int32_t>(value) < static_cast<int32_t>(result) : value < result;
    switch (in.code) {
      case kAdd:
        result += value;
        break;
      case kMin:
        result = less ? value : result;
        break;
      case kMax:
        result = less ? result : value;
        break;
      case kAnd:
        result &= value;
        break;
      case kOr:
        result |= value;
        break;
      default:
        result ^= value;
        break;
    }
  });
  ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[0])[lane] = result; });
}

// match.any.sync d, a, mask: the lanes with the same value.
void MatchLanes(Warp& warp, const Instruction& in, uint32_t lanes) {
  const uint64_t* const a = warp.Row(in.rows[1]);
  const uint64_t mask = in.type.bits == 64 ? ~uint64_t{0} : 0xffffffff;
  uint32_t same[kLanes] = {};
  ForEachLane(lanes, [&](int lane) {
    ForEachLane(lanes, [&](int other) {
      if (((a[lane] ^ a[other]) & mask) == 0) same[lane] |= uint32_t{1} << other;
    });
  });
  ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[0])[lane] = same[lane]; });
}

void SyncLanes(Warp& warp, const Instruction&, uint32_t lanes) { warp.clock().SyncLanes(lanes); }

void ActiveMask(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) { warp.Row(in.rows[0])[lane] = lanes; });
}

void DoNothing(Warp&, const Instruction&, uint32_t) {}

bool DecodeBarrier(const Opcode& opcode, Instruction& instruction) {
  if (opcode.Has("warp")) {  // bar.warp.sync mask
    instruction.flow = Flow::kMeet;
    instruction.mask = instruction.rows[0];
    instruction.execute = &SyncLanes;
    return true;
  }
  if (opcode.Has("cluster")) return false;
  instruction.flow = Flow::kBarrier;
  if (opcode.Has("sync")) return true;
  if (opcode.Has("arrive")) {
    instruction.code = 1;
    return true;
  }
  if (!opcode.Has("red")) return false;
  instruction.code = opcode.Has("popc") ? 10 : opcode.Has("and") ? 11 : 12;
  return true;
}

// The name of a mode in an opcode, −1: none.
int ModeOf(const Opcode& opcode, std::initializer_list<const char*> names) {
  int mode = 0;
  for (const char* const name : names) {
    if (opcode.Has(name)) return mode;
    ++mode;
  }
  return -1;
}

}  // namespace

bool DecodeWarp(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name() == "bar" || opcode.name() == "barrier")
    return DecodeBarrier(opcode, instruction);
  if (opcode.name() == "activemask") {
    instruction.execute = &ActiveMask;
    return true;
  }
  if (opcode.name() == "nanosleep" || opcode.name() == "prefetch" || opcode.name() == "prefetchu" ||
      opcode.name() == "discard" || opcode.name() == "griddepcontrol") {
    instruction.execute = &DoNothing;
    return true;
  }
  if (opcode.name() == "shfl") {
    instruction.code = ModeOf(opcode, {"idx", "up", "down", "bfly"});
    instruction.execute = &ShuffleLanes;
  } else if (opcode.name() == "vote") {
    instruction.code = ModeOf(opcode, {"all", "any", "uni", "ballot"});
    instruction.execute = &VoteLanes;
  } else if (opcode.name() == "redux" && !instruction.type.IsFloating()) {
    instruction.code = ModeOf(opcode, {"add", "min", "max", "and", "or", "xor"});
    instruction.execute = &ReduceLanes;
  } else if (opcode.name() == "match" && opcode.Has("any")) {
    instruction.execute = &MatchLanes;
  }
  if (instruction.execute == nullptr || !opcode.Has("sync") || instruction.code < 0) {
    instruction.execute = nullptr;
    return false;
  }
  instruction.flow = Flow::kMeet;
  instruction.mask = instruction.rows.back();
  return true;
}

}  // namespace strata::standin
