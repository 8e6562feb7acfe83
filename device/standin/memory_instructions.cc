// Loads and stores; atomic operations; fences; cp.async.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "device/standin/lane_math.h"
#include "device/standin/number_formats.h"

namespace strata::standin {
namespace {

using Access = Checker::Access;

uint64_t AddressOf(Warp& warp, const Instruction& in, int row, int which, int lane) {
  const uint64_t address = warp.Row(row)[lane] + static_cast<uint64_t>(in.offsets[which]);
  return in.space == Space::kShared ? address & 0xffffffff : address;
}

// Signed types are extended to the register, which may be of 64 bits; where it is not, nobody reads
// what is above.
uint64_t Extended(uint64_t value, const Type& type) {
  if (type.base != Base::kSigned) return value;
  const int unused = 64 - type.bits;
  return static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
}

void Load(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int bytes = in.type.bits * in.type.count / 8, base = in.rows[in.vector];
  ForEachLane(lanes, [&](int lane) {
    const Place place = warp.Resolve(in, in.space, AddressOf(warp, in, base, 0, lane),
                                     static_cast<uint64_t>(bytes) * in.vector, lane);
    if (place.data == nullptr) {
      for (int i = 0; i < in.vector; ++i) warp.Row(in.rows[i])[lane] = ~uint64_t{0};
      return;
    }
    warp.Touch(in, place, static_cast<uint64_t>(bytes) * in.vector, Access::kRead, in.strong, lane);
    if (in.strong) warp.Observe(place, lane, in.acquire);
    for (int i = 0; i < in.vector; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, place.data + i * bytes, bytes);
      warp.Row(in.rows[i])[lane] = Extended(value, in.type);
    }
  });
}

void Store(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int bytes = in.type.bits * in.type.count / 8;
  ForEachLane(lanes, [&](int lane) {
    const Place place = warp.Resolve(in, in.space, AddressOf(warp, in, in.rows[0], 0, lane),
                                     static_cast<uint64_t>(bytes) * in.vector, lane);
    if (place.data == nullptr) return;
    warp.Touch(in, place, static_cast<uint64_t>(bytes) * in.vector, Access::kWrite, in.strong,
               lane);
    if (in.strong) warp.Publish(place, lane, in.release);
    for (int i = 0; i < in.vector; ++i) {
      std::memcpy(place.data + i * bytes, &warp.Row(in.rows[1 + i])[lane], bytes);
    }
  });
}

enum Atomic : int { kAdd, kAnd, kOr, kXor, kExchange, kMin, kMax, kInc, kDec, kCompareAndSwap };

template <typename T>
uint64_t Combine(int operation, uint64_t old_bits, uint64_t operand_bits) {
  const T old = Unpack<T>(old_bits), operand = Unpack<T>(operand_bits);
  switch (operation) {
    case kAdd:
      return Pack(static_cast<T>(old + operand));
    case kMin:
      return Pack(std::min(old, operand));
    case kMax:
      return Pack(std::max(old, operand));
    case kInc:
      return Pack(old >= operand ? T{0} : static_cast<T>(old + 1));
    case kDec:
      return Pack(old == 0 || old > operand ? operand : static_cast<T>(old - 1));
    case kAnd:
      return old_bits & operand_bits;
    case kOr:
      return old_bits | operand_bits;
    case kXor:
      return old_bits ^ operand_bits;
    default:
      return Pack(operand);
  }
}

uint64_t CombineFloating(const Type& type, uint64_t old, uint64_t operand) {
  const uint64_t mask = type.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
  uint64_t out = 0;
  for (int shift = 0; shift < type.bits * type.count; shift += type.bits) {
    const double sum =
        ToDouble(type, old >> shift & mask) + ToDouble(type, operand >> shift & mask);
    out |= FromDouble(type, sum, Rounding::kNearest) << shift;
  }
  return out;
}

uint64_t Result(const Instruction& in, uint64_t old, uint64_t operand, uint64_t swap) {
  const int operation = in.code & 15;
  if (operation == kCompareAndSwap) return old == operand ? swap : old;
  if (in.type.IsFloating() && operation == kAdd) return CombineFloating(in.type, old, operand);
  const bool is_signed = in.type.base == Base::kSigned;
  if (in.type.bits == 64) {
    return is_signed ? Combine<int64_t>(operation, old, operand)
                     : Combine<uint64_t>(operation, old, operand);
  }
  return is_signed ? Combine<int32_t>(operation, old, operand)
                   : Combine<uint32_t>(operation, old, operand);
}

constexpr int kNoResult = 16;  // added to the operation: red

// atom d, [a], b[, c]; red [a], b. Lanes one after the other.
void AtomicOperation(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int bytes = in.type.bits * in.type.count / 8, first = (in.code & kNoResult) != 0 ? 0 : 1;
  const uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
  ForEachLane(lanes, [&](int lane) {
    const Place place =
        warp.Resolve(in, in.space, AddressOf(warp, in, in.rows[first], 0, lane), bytes, lane);
    if (place.data == nullptr) return;
    warp.Touch(in, place, bytes, Access::kUpdate, true, lane);
    warp.Observe(place, lane, in.acquire);
    warp.Publish(place, lane, in.release);
    uint64_t old = 0;
    std::memcpy(&old, place.data, bytes);
    const uint64_t operand = warp.Row(in.rows[first + 1])[lane] & mask;
    const uint64_t swap =
        (in.code & 15) == kCompareAndSwap ? warp.Row(in.rows[first + 2])[lane] & mask : 0;
    const uint64_t result = Result(in, old, operand, swap);
    std::memcpy(place.data, &result, bytes);
    if (first == 1) warp.Row(in.rows[0])[lane] = old;
  });
}

void FenceLanes(Warp& warp, const Instruction&, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) { warp.Fence(lane); });
}

// cp.async.cg.shared.global [to], [from], bytes[, source bytes]
void StartCopies(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    const uint32_t bytes = static_cast<uint32_t>(warp.Row(in.rows[2])[lane]);
    const uint32_t read = in.rows.size() > 3
                              ? std::min(bytes, static_cast<uint32_t>(warp.Row(in.rows[3])[lane]))
                              : bytes;
    const uint64_t to = (warp.Row(in.rows[0])[lane] + in.offsets[0]) & 0xffffffff;
    const uint64_t from = warp.Row(in.rows[1])[lane] + in.offsets[1];
    AsyncCopy copy{warp.Resolve(in, Space::kShared, to, bytes, lane), nullptr, read, bytes - read,
                   in.site};
    if (copy.to.data == nullptr) return;
    if (read != 0) {
      const Place source = warp.Resolve(in, Space::kGlobal, from, bytes, lane);
      if (source.data == nullptr) return;
      warp.Touch(in, source, read, Access::kRead, false, lane);
      copy.from = source.data;
    }
    warp.Touch(in, copy.to, bytes, Access::kWrite, false, lane);
    if (warp.machine().options.check) {
      Stamp stamp = warp.StampOf(lane, in.site);
      stamp.flags = Stamp::kInFlight;
      warp.machine().checker.Mark(*copy.to.shadow, copy.to.offset, bytes, stamp);
    }
    warp.StartCopy(lane, copy);
  });
}

void CommitCopies(Warp& warp, const Instruction&, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) { warp.CommitCopies(lane); });
}

void WaitForGroups(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) { warp.FinishCopies(lane, warp.Row(in.rows[0])[lane]); });
}

void WaitForAll(Warp& warp, const Instruction&, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    warp.CommitCopies(lane);
    warp.FinishCopies(lane, 0);
  });
}

}  // namespace

bool DecodeMemory(const Opcode& opcode, Instruction& instruction) {
  const bool load = opcode.name() == "ld" || opcode.name() == "ldu";
  if (opcode.name() == "membar" || opcode.name() == "fence") {
    if (opcode.Has("proxy") || opcode.Has("mbarrier_init")) return false;
    instruction.execute = &FenceLanes;
    return true;
  }
  if ((!load && opcode.name() != "st") || opcode.types.empty() || instruction.type.bits > 64 ||
      opcode.Has("shared::cluster") || opcode.Has("async")) {
    return false;
  }
  instruction.execute = load ? &Load : &Store;
  return instruction.rows.size() == static_cast<size_t>(instruction.vector) + 1;
}

bool DecodeAtomic(const Opcode& opcode, Instruction& instruction) {
  const bool has_result = opcode.name() == "atom";
  if ((!has_result && opcode.name() != "red") || opcode.types.empty() || instruction.vector != 1 ||
      opcode.Has("async") || opcode.Has("shared::cluster") || instruction.type.bits > 64) {
    return false;
  }
  static const auto* const operations = new std::map<std::string, int>{
      {"add", kAdd}, {"and", kAnd}, {"or", kOr},   {"xor", kXor}, {"exch", kExchange},
      {"min", kMin}, {"max", kMax}, {"inc", kInc}, {"dec", kDec}, {"cas", kCompareAndSwap}};
  for (const std::string& part : opcode.parts) {
    const auto found = operations->find(part);
    if (found == operations->end()) continue;
    const bool floating = instruction.type.IsFloating();
    if (floating && found->second != kAdd && found->second != kExchange) return false;
    if (!floating && instruction.type.bits < 32 && found->second != kCompareAndSwap) return false;
    instruction.code = found->second + (has_result ? 0 : kNoResult);
    instruction.execute = &AtomicOperation;
    return true;
  }
  return false;
}

bool DecodeAsyncCopy(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name() != "cp" || !opcode.Has("async") || opcode.Has("bulk") ||
      opcode.Has("mbarrier") || opcode.Has("shared::cluster")) {
    return false;
  }
  if (opcode.Has("commit_group")) {
    instruction.execute = &CommitCopies;
  } else if (opcode.Has("wait_group")) {
    instruction.execute = &WaitForGroups;
  } else if (opcode.Has("wait_all")) {
    instruction.execute = &WaitForAll;
  } else if (instruction.rows.size() >= 3) {
    instruction.execute = &StartCopies;
  }
  return instruction.execute != nullptr;
}

}  // namespace strata::standin
