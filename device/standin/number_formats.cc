#include "device/standin/number_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace strata::standin {
namespace {

// To an integer, as a format's last place counts.
double Rounded(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return std::nearbyint(value);
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
  }
  return value;
}

const Format& FormatOf(Base base) {
  switch (base) {
    case Base::kBrain:
      return kBfloat16;
    case Base::kE4M3:
      return kE4M3;
    case Base::kE5M2:
      return kE5M2;
    default:
      return kFloat16;
  }
}

float ToFloat(double value, Rounding rounding) {
  const float nearest = static_cast<float>(value);
  if (rounding == Rounding::kNearest || std::isnan(value) || nearest == value) return nearest;
  const bool down = rounding == Rounding::kDown || (rounding == Rounding::kZero && value > 0);
  if (down) return nearest > value ? std::nextafter(nearest, -INFINITY) : nearest;
  return nearest < value ? std::nextafter(nearest, INFINITY) : nearest;
}

}  // namespace

double Decode(const Format& format, uint32_t bits) {
  const int m = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << m) - 1), top = (1u << format.exponent_bits) - 1;
  const uint32_t exponent = bits >> m & top;
  const double sign = bits >> (m + format.exponent_bits) & 1 ? -1 : 1;
  if (format.ieee && exponent == top) return mantissa == 0 ? sign * INFINITY : std::nan("");
  if (!format.ieee && exponent == top && mantissa == (1u << m) - 1) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - m);
  return sign * std::ldexp(mantissa | 1u << m, static_cast<int>(exponent) - bias - m);
}

uint32_t Encode(const Format& format, double value, Rounding rounding, bool saturate) {
  const int m = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t nan = top << m | ((1u << m) - 1);
  const uint32_t most = format.ieee ? (top << m) - 1 : nan - 1,
                 infinity = format.ieee ? top << m : nan;
  const uint32_t sign = std::signbit(value) ? 1u << (m + format.exponent_bits) : 0;
  if (std::isnan(value)) return nan;
  if (std::isinf(value)) return sign | (saturate ? most : infinity);
  const double size = std::fabs(value);
  // Rounding of the size: towards −∞ and +∞ change places for negative values.
  Rounding mode = rounding;
  if (sign != 0 && mode != Rounding::kNearest && mode != Rounding::kZero) {
    mode = mode == Rounding::kDown ? Rounding::kUp : Rounding::kDown;
  }
  int exponent = size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias);
  const double scaled = Rounded(std::ldexp(size, m - exponent), mode);
  // Bits count on from one exponent to the next, so that a carry needs no care.
  const double bits = scaled + (static_cast<double>(exponent + bias - 1) * (1 << m));
  if (bits > most) {
    return sign |
           (saturate || mode == Rounding::kZero || mode == Rounding::kDown ? most : infinity);
  }
  return sign | static_cast<uint32_t>(bits);
}

double ToDouble(const Type& type, uint64_t bits) {
  if (type.base == Base::kFloat) {
    return type.bits == 64 ? std::bit_cast<double>(bits)
                           : std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
  const Format& format = FormatOf(type.base);
  return Decode(format, static_cast<uint32_t>(bits & ((1u << type.bits) - 1)));
}

uint64_t FromDouble(const Type& type, double value, Rounding rounding, bool saturate) {
  if (type.base == Base::kFloat) {
    if (saturate) value = value > 0 ? std::min(value, 1.0) : 0;  // NaN becomes 0
    return type.bits == 64 ? std::bit_cast<uint64_t>(value)
                           : std::bit_cast<uint32_t>(ToFloat(value, rounding));
  }
  return Encode(FormatOf(type.base), value, rounding, saturate);
}

}  // namespace strata::standin
