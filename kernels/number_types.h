// Numbers of 16 bits, as kernels read and write them: they compute in float. Kernels that work on
// several types are templates over float, BFloat16 and Float16, instantiated for these three where
// they are defined.
#ifndef STRATA_KERNELS_NUMBER_TYPES_H_
#define STRATA_KERNELS_NUMBER_TYPES_H_

#include <bit>
#include <cstdint>

namespace strata::kernels {

// A float's upper half: its sign, its 8 bits of exponent, 7 of its mantissa.
struct BFloat16 {
  uint16_t bits = 0;
};

// IEEE 754 binary16.
struct Float16 {
  uint16_t bits = 0;
};

// One of the three, where a type cannot say it.
enum class NumberType { kF32, kBF16, kF16 };

// What `body` makes of a number of the type, which carries nothing but its type.
template <typename Body>
auto WithNumberOf(NumberType type, const Body& body) {
  if (type == NumberType::kBF16) return body(BFloat16{});
  if (type == NumberType::kF16) return body(Float16{});
  return body(0.0F);
}

inline float ToFloat(float value) { return value; }
inline float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
inline float ToFloat(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t exponent = value.bits >> 10 & 31, mantissa = value.bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {  // mantissa * 2^-24, exact in float
    const float small = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// The nearest, ties to even; what is too large becomes infinite, NaN stays NaN.
template <typename T>
T FromFloat(float value);
template <>
inline float FromFloat<float>(float value) {
  return value;
}
template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <>
inline Float16 FromFloat<Float16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x38800000) {  // below 2^-14: adding 0.5 puts the last kept bit at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000))};
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return {static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13)};
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_NUMBER_TYPES_H_
