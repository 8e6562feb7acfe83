// cvt, cvta, setp, selp and the like: between types, address spaces, and numbers and predicates.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

#include "device/standin/lane_math.h"
#include "device/standin/number_formats.h"

namespace strata::standin {
namespace {

uint64_t Narrow(uint64_t value, int bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
int64_t SignExtend(uint64_t value, int bits) {
  return bits >= 64 ? static_cast<int64_t>(value)
                    : static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

double RoundToInteger(double value, const Instruction& in) {
  switch (in.rounding) {
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

// Out of range: the nearest there is; NaN: 0.
uint64_t ToInteger(double value, const Type& type) {
  if (std::isnan(value)) return 0;
  const bool is_signed = type.base == Base::kSigned;
  const double end = std::ldexp(1, type.bits - (is_signed ? 1 : 0));
  const double begin = is_signed ? -end : 0;
  if (value >= end)
    return Narrow(~uint64_t{0} >> (is_signed ? 65 - type.bits : 64 - type.bits), 64);
  if (value <= begin) return is_signed ? uint64_t{1} << (type.bits - 1) : 0;
  return Narrow(
      value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value),
      type.bits);
}

uint64_t IntegerToInteger(uint64_t value, const Instruction& in) {
  const bool from_signed = in.from.base == Base::kSigned;
  const bool to_signed = in.type.base == Base::kSigned;
  const uint64_t wide = from_signed ? static_cast<uint64_t>(SignExtend(value, in.from.bits))
                                    : Narrow(value, in.from.bits);
  if (!in.saturate) return Narrow(wide, in.type.bits);
  const __int128 exact =
      from_signed ? static_cast<__int128>(static_cast<int64_t>(wide)) : static_cast<__int128>(wide);
  const __int128 one = 1;
  const __int128 high = (one << (in.type.bits - (to_signed ? 1 : 0))) - 1;
  const __int128 low = to_signed ? -high - 1 : 0;
  return Narrow(static_cast<uint64_t>(std::clamp(exact, low, high)), in.type.bits);
}

uint64_t Convert(uint64_t value, const Instruction& in) {
  const bool to_float = in.type.IsFloating(), from_float = in.from.IsFloating();
  if (!to_float && !from_float) return IntegerToInteger(value, in);
  if (from_float) {
    double number = ToDouble(in.from, value);
    if (!to_float) return ToInteger(RoundToInteger(number, in), in.type);
    if (in.code == 1) number = RoundToInteger(number, in);  // cvt.rzi.f32.f32
    return FromDouble(in.type, number, in.code == 1 ? Rounding::kNearest : in.rounding,
                      in.saturate);
  }
  // From integers: through double only where that is exact.
  if (in.from.bits == 64 && in.type.base == Base::kFloat && in.rounding == Rounding::kNearest) {
    if (in.from.base == Base::kSigned) {
      const int64_t integer = static_cast<int64_t>(value);
      return in.type.bits == 64 ? Pack(static_cast<double>(integer))
                                : Pack(static_cast<float>(integer));
    }
    return in.type.bits == 64 ? Pack(static_cast<double>(value)) : Pack(static_cast<float>(value));
  }
  const double number = in.from.base == Base::kSigned
                            ? static_cast<double>(SignExtend(value, in.from.bits))
                            : static_cast<double>(Narrow(value, in.from.bits));
  return FromDouble(in.type, number, in.rounding, in.saturate);
}

// d, a[, b]: packed pairs have the first source in the upper half.
void ConvertLanes(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    const uint64_t a = warp.Row(in.rows[1])[lane];
    uint64_t& d = warp.Row(in.rows[0])[lane];
    if (in.type.count == 1) {
      d = Convert(a, in);
    } else if (in.from.count == 2) {
      const uint64_t low = Narrow(a, in.from.bits), high = Narrow(a >> in.from.bits, in.from.bits);
      d = Convert(high, in) << in.type.bits | Convert(low, in);
    } else {
      d = Convert(a, in) << in.type.bits | Convert(warp.Row(in.rows[2])[lane], in);
    }
  });
}

// What kernels do most, without looking at types each time.
uint64_t BrainToFloat(uint64_t a) { return (a & 0xffff) << 16; }
uint64_t Low32(uint64_t a) { return a & 0xffffffff; }
uint64_t Signed32To64(uint64_t a) { return static_cast<uint64_t>(SignExtend(a, 32)); }
uint64_t FloatToBrain(uint64_t a) {
  const uint32_t bits = static_cast<uint32_t>(a);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <uint64_t kOffset>
uint64_t AddWindow(uint64_t a) {
  return a + kOffset;
}

bool DecodeAddress(const Opcode& opcode, Instruction& instruction) {
  const bool to = opcode.Has("to");
  switch (instruction.space) {
    case Space::kShared:
      instruction.execute =
          to ? &Map1<&AddWindow<-kSharedWindow>> : &Map1<&AddWindow<kSharedWindow>>;
      return true;
    case Space::kLocal:
      instruction.execute = to ? &Map1<&AddWindow<-kLocalWindow>> : &Map1<&AddWindow<kLocalWindow>>;
      return true;
    case Space::kParameter:
      instruction.execute =
          to ? &Map1<&AddWindow<-kParameterWindow>> : &Map1<&AddWindow<kParameterWindow>>;
      return true;
    default:
      instruction.execute = &Map1<&AddWindow<0>>;
      return true;
  }
}

template <uint64_t kWindow>
uint64_t IsInWindow(uint64_t a) {
  return (a & (uint64_t{0xff} << 56)) == kWindow ? 1 : 0;
}

enum Comparison : int {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan
};

template <typename T>
bool Compare(int comparison, T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  switch (comparison) {
    case kEq:
      return a == b;
    case kNe:
      return !unordered && a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
    case kEqu:
      return unordered || a == b;
    case kNeu:
      return unordered || a != b;
    case kLtu:
      return unordered || a < b;
    case kLeu:
      return unordered || a <= b;
    case kGtu:
      return unordered || a > b;
    case kGeu:
      return unordered || a >= b;
    case kNum:
      return !unordered;
    default:
      return unordered;
  }
}

constexpr int kAnd = 32, kOr = 64, kXor = 96;  // added to the comparison: with a third predicate

// p|q = a compared with b [and c]: q is the contrary.
template <typename T>
void SetPredicate(Warp& warp, const Instruction& in, uint32_t lanes) {
  const uint64_t *const a = warp.Row(in.rows[2]), *const b = warp.Row(in.rows[3]);
  const int combine = in.code & ~31;
  ForEachLane(lanes, [&](int lane) {
    bool yes = Compare<T>(in.code & 31, Unpack<T>(a[lane]), Unpack<T>(b[lane])), no = !yes;
    if (combine != 0) {
      const bool c = (warp.Row(in.rows[4])[lane] & 1) != 0;
      yes = combine == kAnd ? yes && c : combine == kOr ? yes || c : yes != c;
      no = combine == kAnd ? no && c : combine == kOr ? no || c : no != c;
    }
    warp.Row(in.rows[0])[lane] = yes;
    warp.Row(in.rows[1])[lane] = no;
  });
}

template <Base kBase>
void SetPredicateSmall(Warp& warp, const Instruction& in, uint32_t lanes) {
  const Type type{kBase, 16, 1};
  const uint64_t *const a = warp.Row(in.rows[2]), *const b = warp.Row(in.rows[3]);
  ForEachLane(lanes, [&](int lane) {
    const bool yes = Compare(in.code & 31, ToDouble(type, a[lane]), ToDouble(type, b[lane]));
    warp.Row(in.rows[0])[lane] = yes;
    warp.Row(in.rows[1])[lane] = !yes;
  });
}

Handler SetPredicateOf(const Type& type) {
  const bool is_signed = type.base == Base::kSigned;
  if (type.base == Base::kBrain) return &SetPredicateSmall<Base::kBrain>;
  if (type.base == Base::kHalf) return &SetPredicateSmall<Base::kHalf>;
  if (type.base == Base::kFloat)
    return type.bits == 64 ? &SetPredicate<double> : &SetPredicate<float>;
  switch (type.bits) {
    case 16:
      return is_signed ? &SetPredicate<int16_t> : &SetPredicate<uint16_t>;
    case 32:
      return is_signed ? &SetPredicate<int32_t> : &SetPredicate<uint32_t>;
    case 64:
      return is_signed ? &SetPredicate<int64_t> : &SetPredicate<uint64_t>;
    default:
      return nullptr;
  }
}

uint64_t Select(uint64_t a, uint64_t b, uint64_t predicate) { return (predicate & 1) != 0 ? a : b; }

// Constants may be negative: their upper bits go.
template <int kBits>
uint64_t SelectBits(uint64_t a, uint64_t b, uint64_t predicate) {
  return Narrow(Select(a, b, predicate), kBits);
}

// testp.infinite and the like.
void TestFloat(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    const double value = ToDouble(in.type, warp.Row(in.rows[1])[lane]);
    const bool results[] = {std::isfinite(value), std::isinf(value), std::isnan(value),
                            !std::isnan(value)};
    warp.Row(in.rows[0])[lane] = results[in.code];
  });
}

}  // namespace

bool DecodeConversion(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name() == "cvta") return DecodeAddress(opcode, instruction);
  if (opcode.name() == "isspacep") {
    if (instruction.space != Space::kShared && instruction.space != Space::kLocal) return false;
    instruction.execute = instruction.space == Space::kShared ? &Map1<&IsInWindow<kSharedWindow>>
                                                              : &Map1<&IsInWindow<kLocalWindow>>;
    return true;
  }
  if (opcode.name() != "cvt" || opcode.types.size() != 2 || opcode.Has("relu") ||
      opcode.Has("rs") || instruction.rows.size() < 2) {
    return false;
  }
  if (instruction.type.count == 2 && instruction.from.count == 1 && instruction.rows.size() != 3) {
    return false;
  }
  const Type to = instruction.type, from = instruction.from;
  const bool integers = !to.IsFloating() && !from.IsFloating() && !instruction.saturate;
  instruction.code =
      opcode.Has("rni") || opcode.Has("rzi") || opcode.Has("rmi") || opcode.Has("rpi");
  instruction.execute = &ConvertLanes;
  constexpr Type kBrain{Base::kBrain, 16, 1}, kFloat{Base::kFloat, 32, 1};
  if (to == kFloat && from == kBrain) instruction.execute = &Map1<&BrainToFloat>;
  if (to == kBrain && from == kFloat && instruction.rounding == Rounding::kNearest &&
      !instruction.saturate) {
    instruction.execute = &Map1<&FloatToBrain>;
  }
  if (integers && to.bits == 64 && from.bits == 32) {
    instruction.execute = from.base == Base::kSigned ? &Map1<&Signed32To64> : &Map1<&Low32>;
  }
  if (integers && to.bits == 32 && from.bits == 64) instruction.execute = &Map1<&Low32>;
  return true;
}

bool DecodeCompare(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name() == "selp") {
    instruction.execute = instruction.type.bits == 64   ? &Map3<&SelectBits<64>>
                          : instruction.type.bits == 32 ? &Map3<&SelectBits<32>>
                                                        : &Map3<&SelectBits<16>>;
    return true;
  }
  if (opcode.name() == "testp") {
    static constexpr const char* kTests[] = {"finite", "infinite", "notanumber", "number"};
    for (int i = 0; i < 4; ++i) {
      if (!opcode.Has(kTests[i])) continue;
      instruction.code = i;
      instruction.execute = &TestFloat;
      return true;
    }
    return false;
  }
  if (opcode.name() != "setp" || opcode.parts.size() < 3 || opcode.types.empty()) return false;
  static const auto* const comparisons = new std::map<std::string, int>{
      {"eq", kEq},   {"ne", kNe},   {"lt", kLt},   {"le", kLe},   {"gt", kGt},   {"ge", kGe},
      {"lo", kLt},   {"ls", kLe},   {"hi", kGt},   {"hs", kGe},   {"equ", kEqu}, {"neu", kNeu},
      {"ltu", kLtu}, {"leu", kLeu}, {"gtu", kGtu}, {"geu", kGeu}, {"num", kNum}, {"nan", kNan}};
  const auto found = comparisons->find(opcode.parts[1]);
  if (found == comparisons->end()) return false;
  instruction.code = found->second;
  if (opcode.Has("and")) instruction.code += kAnd;
  if (opcode.Has("or")) instruction.code += kOr;
  if (opcode.Has("xor")) instruction.code += kXor;
  instruction.execute = SetPredicateOf(instruction.type);
  return instruction.type.count == 1 && instruction.execute != nullptr;
}

}  // namespace strata::standin
