// Integers and bits: arithmetic, logic, shifts, bit fields, moves.
#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "device/standin/lane_math.h"

namespace strata::standin {
namespace {

using Wide = __int128;

// As the device has it: wrapping, and division by zero gives all ones.
template <typename T>
struct Integer {
  using U = std::make_unsigned_t<T>;
  static constexpr int kBits = 8 * sizeof(T);

  static uint64_t Add(uint64_t a, uint64_t b) { return Pack(static_cast<U>(a + b)); }
  static uint64_t Sub(uint64_t a, uint64_t b) { return Pack(static_cast<U>(a - b)); }
  static uint64_t MulLow(uint64_t a, uint64_t b) { return Pack(static_cast<U>(a * b)); }
  static uint64_t MadLow(uint64_t a, uint64_t b, uint64_t c) {
    return Pack(static_cast<U>(a * b + c));
  }
  static uint64_t MulHigh(uint64_t a, uint64_t b) {
    return Pack(static_cast<U>(static_cast<Wide>(Unpack<T>(a)) * Unpack<T>(b) >> kBits));
  }
  static uint64_t MadHigh(uint64_t a, uint64_t b, uint64_t c) { return Add(MulHigh(a, b), c); }
  static uint64_t MulWide(uint64_t a, uint64_t b) {
    const uint64_t product = static_cast<uint64_t>(static_cast<Wide>(Unpack<T>(a)) * Unpack<T>(b));
    return kBits == 16 ? product & 0xffffffff : product;
  }
  static uint64_t MadWide(uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t sum = MulWide(a, b) + c;
    return kBits == 16 ? sum & 0xffffffff : sum;
  }
  static uint64_t Div(uint64_t a, uint64_t b) {
    const Wide divisor = Unpack<T>(b);
    return divisor == 0 ? Pack(static_cast<U>(~U{0}))
                        : Pack(static_cast<U>(static_cast<Wide>(Unpack<T>(a)) / divisor));
  }
  static uint64_t Rem(uint64_t a, uint64_t b) {
    const Wide divisor = Unpack<T>(b);
    return divisor == 0 ? Pack(Unpack<U>(a))
                        : Pack(static_cast<U>(static_cast<Wide>(Unpack<T>(a)) % divisor));
  }
  static uint64_t Neg(uint64_t a) { return Pack(static_cast<U>(0 - a)); }
  static uint64_t Abs(uint64_t a) {
    const T value = Unpack<T>(a);
    return Pack(static_cast<U>(value < 0 ? 0 - a : a));
  }
  static uint64_t Min(uint64_t a, uint64_t b) { return Pack(std::min(Unpack<T>(a), Unpack<T>(b))); }
  static uint64_t Max(uint64_t a, uint64_t b) { return Pack(std::max(Unpack<T>(a), Unpack<T>(b))); }
  static uint64_t Shl(uint64_t a, uint64_t b) {
    const uint32_t n = static_cast<uint32_t>(b);
    return n >= kBits ? 0 : Pack(static_cast<U>(a << n));
  }
  static uint64_t Shr(uint64_t a, uint64_t b) {
    const uint32_t n = std::min<uint32_t>(static_cast<uint32_t>(b), kBits);
    return Pack(static_cast<U>(static_cast<Wide>(Unpack<T>(a)) >> n));
  }
  static uint64_t Move(uint64_t a) { return Pack(static_cast<U>(a)); }
  static uint64_t Not(uint64_t a) { return Pack(static_cast<U>(~a)); }
  static uint64_t Popc(uint64_t a) {
    return std::popcount(static_cast<uint64_t>(static_cast<U>(a)));
  }
  static uint64_t Clz(uint64_t a) {
    return std::countl_zero(static_cast<uint64_t>(static_cast<U>(a))) - (64 - kBits);
  }
  static uint64_t Brev(uint64_t a) {
    uint64_t out = 0;
    for (int i = 0; i < kBits; ++i) out |= (a >> i & 1) << (kBits - 1 - i);
    return out;
  }
  static uint64_t Bfind(uint64_t a) {  // the highest bit that differs from the sign's
    const T value = Unpack<T>(a);
    const U bits = static_cast<U>(value < 0 ? ~a : a);
    return bits == 0 ? 0xffffffff : kBits - 1 - Clz(bits);
  }
  static uint64_t BfindShift(uint64_t a) {
    const uint64_t at = Bfind(a);
    return at == 0xffffffff ? at : kBits - 1 - at;
  }
  static uint64_t Bfe(uint64_t a, uint64_t b, uint64_t c) {
    const int begin = b & 255, length = c & 255;
    if (length == 0) return 0;
    const uint64_t shifted = begin >= kBits
                                 ? (Unpack<T>(a) < 0 ? ~uint64_t{0} : 0)
                                 : static_cast<uint64_t>(static_cast<Wide>(Unpack<T>(a)) >> begin);
    if (length >= 64) return Pack(static_cast<U>(shifted));
    const int unused = 64 - length;
    const uint64_t field =
        std::is_signed_v<T>
            ? static_cast<uint64_t>(static_cast<int64_t>(shifted << unused) >> unused)
            : shifted << unused >> unused;
    return Pack(static_cast<U>(field));
  }
};

uint64_t And(uint64_t a, uint64_t b) { return a & b; }
uint64_t Or(uint64_t a, uint64_t b) { return a | b; }
uint64_t Xor(uint64_t a, uint64_t b) { return a ^ b; }
uint64_t NotPredicate(uint64_t a) { return ~a & 1; }
uint64_t MovePredicate(uint64_t a) { return a & 1; }

uint64_t Funnel(uint64_t low, uint64_t high, uint32_t shift, bool left) {
  const uint64_t both = high << 32 | (low & 0xffffffff);
  return left ? (shift == 0 ? high : both << shift >> 32) & 0xffffffff
              : (both >> shift) & 0xffffffff;
}
uint64_t FunnelLeftWrap(uint64_t a, uint64_t b, uint64_t c) { return Funnel(a, b, c & 31, true); }
uint64_t FunnelRightWrap(uint64_t a, uint64_t b, uint64_t c) { return Funnel(a, b, c & 31, false); }
uint64_t FunnelLeftClamp(uint64_t a, uint64_t b, uint64_t c) {
  return Funnel(a, b, std::min<uint32_t>(static_cast<uint32_t>(c), 32), true);
}
uint64_t FunnelRightClamp(uint64_t a, uint64_t b, uint64_t c) {
  return Funnel(a, b, std::min<uint32_t>(static_cast<uint32_t>(c), 32), false);
}

uint64_t Permute(uint64_t a, uint64_t b, uint64_t selector) {
  const uint64_t bytes = b << 32 | (a & 0xffffffff);
  uint64_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const int pick = selector >> (4 * i) & 15;
    uint64_t byte = bytes >> (8 * (pick & 7)) & 255;
    if ((pick & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;  // its sign alone
    out |= byte << (8 * i);
  }
  return out;
}

// d = lut over the bits of a, b, c.
void Logic3(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    const uint32_t a = static_cast<uint32_t>(warp.Row(in.rows[1])[lane]),
                   b = static_cast<uint32_t>(warp.Row(in.rows[2])[lane]),
                   c = static_cast<uint32_t>(warp.Row(in.rows[3])[lane]);
    const uint64_t table = warp.Row(in.rows[4])[lane];
    uint32_t out = 0;
    for (int i = 0; i < 8; ++i) {
      if ((table >> i & 1) == 0) continue;
      out |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    }
    warp.Row(in.rows[0])[lane] = out;
  });
}

void InsertField(Warp& warp, const Instruction& in, uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    const uint64_t field = warp.Row(in.rows[1])[lane], into = warp.Row(in.rows[2])[lane];
    const int begin = warp.Row(in.rows[3])[lane] & 255, length = warp.Row(in.rows[4])[lane] & 255;
    const uint64_t ones = length >= 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1;
    uint64_t mask = begin >= 64 ? 0 : ones << begin;
    if (in.type.bits == 32) mask &= 0xffffffff;
    warp.Row(in.rows[0])[lane] = (into & ~mask) | (begin >= 64 ? 0 : field << begin & mask);
  });
}

// mov.b32 %r, {%rs1, %rs2} and back; with equal numbers a plain move of each.
void MoveVector(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int parts = static_cast<int>(in.rows.size()) - 1, bits = in.type.bits / parts;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  ForEachLane(lanes, [&](int lane) {
    if (in.code == 1) {
      uint64_t value = 0;
      for (int i = 0; i < parts; ++i) {
        value |= (warp.Row(in.rows[1 + i])[lane] & mask) << (i * bits);
      }
      warp.Row(in.rows[0])[lane] = value;
    } else {
      const uint64_t value = warp.Row(in.rows[parts])[lane];
      for (int i = 0; i < parts; ++i) warp.Row(in.rows[i])[lane] = value >> (i * bits) & mask;
    }
  });
}

template <typename T>
Handler Find(const std::string& name) {
  using I = Integer<T>;
  static const auto* const handlers =
      new std::map<std::string, Handler>{{"add", &Map2<&I::Add>},
                                         {"sub", &Map2<&I::Sub>},
                                         {"mul.lo", &Map2<&I::MulLow>},
                                         {"mul.hi", &Map2<&I::MulHigh>},
                                         {"mul.wide", &Map2<&I::MulWide>},
                                         {"mad.lo", &Map3<&I::MadLow>},
                                         {"mad.hi", &Map3<&I::MadHigh>},
                                         {"mad.wide", &Map3<&I::MadWide>},
                                         {"div", &Map2<&I::Div>},
                                         {"rem", &Map2<&I::Rem>},
                                         {"neg", &Map1<&I::Neg>},
                                         {"abs", &Map1<&I::Abs>},
                                         {"min", &Map2<&I::Min>},
                                         {"max", &Map2<&I::Max>},
                                         {"shl", &Map2<&I::Shl>},
                                         {"shr", &Map2<&I::Shr>},
                                         {"mov", &Map1<&I::Move>},
                                         {"not", &Map1<&I::Not>},
                                         {"popc", &Map1<&I::Popc>},
                                         {"clz", &Map1<&I::Clz>},
                                         {"brev", &Map1<&I::Brev>},
                                         {"bfind", &Map1<&I::Bfind>},
                                         {"bfind.shiftamt", &Map1<&I::BfindShift>},
                                         {"bfe", &Map3<&I::Bfe>}};
  const auto found = handlers->find(name);
  return found == handlers->end() ? nullptr : found->second;
}

Handler FindUntyped(const std::string& name) {
  static const auto* const handlers =
      new std::map<std::string, Handler>{{"and", &Map2<&And>},
                                         {"or", &Map2<&Or>},
                                         {"xor", &Map2<&Xor>},
                                         {"prmt", &Map3<&Permute>},
                                         {"bfi", &InsertField},
                                         {"lop3", &Logic3},
                                         {"shf.l.wrap", &Map3<&FunnelLeftWrap>},
                                         {"shf.r.wrap", &Map3<&FunnelRightWrap>},
                                         {"shf.l.clamp", &Map3<&FunnelLeftClamp>},
                                         {"shf.r.clamp", &Map3<&FunnelRightClamp>}};
  const auto found = handlers->find(name);
  return found == handlers->end() ? nullptr : found->second;
}

}  // namespace

bool DecodeInteger(const Opcode& opcode, Instruction& instruction) {
  const Type type = instruction.type;
  const bool moves = opcode.name() == "mov";
  if (opcode.types.empty() || (type.IsFloating() && !moves)) return false;
  if (moves && instruction.rows.size() > 2) {
    // One to many or many to one: the braces' side is known by their place in the text.
    instruction.code = instruction.text.find('{') > instruction.text.find(',') ? 1 : 0;
    instruction.execute = &MoveVector;
    return true;
  }
  // All but the type: "mul.wide".
  std::string name(opcode.name());
  for (size_t i = 1; i + 1 < opcode.parts.size(); ++i) name += "." + opcode.parts[i];
  if ((instruction.execute = FindUntyped(name)) != nullptr) return true;
  if (type.base == Base::kPredicate) {
    if (name == "not") instruction.execute = &Map1<&NotPredicate>;
    if (name == "mov") instruction.execute = &Map1<&MovePredicate>;
    return instruction.execute != nullptr;
  }
  const bool is_signed = type.base == Base::kSigned;
  switch (type.bits * type.count) {
    case 16:
      instruction.execute = is_signed ? Find<int16_t>(name) : Find<uint16_t>(name);
      break;
    case 32:
      instruction.execute = is_signed ? Find<int32_t>(name) : Find<uint32_t>(name);
      break;
    case 64:
      instruction.execute = is_signed ? Find<int64_t>(name) : Find<uint64_t>(name);
      break;
    default:
      break;
  }
  return instruction.execute != nullptr;
}

}  // namespace strata::standin
