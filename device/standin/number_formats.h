// Floating-point formats below 32 bits as bits, from and to double, which holds all of them.
#ifndef STRATA_DEVICE_STANDIN_NUMBER_FORMATS_H_
#define STRATA_DEVICE_STANDIN_NUMBER_FORMATS_H_

#include <cstdint>

#include "device/standin/instruction.h"

namespace strata::standin {

// A format of `exponent_bits` and `mantissa_bits` below a sign. IEEE formats end with infinity and
// NaN; the others (e4m3) have one NaN, all bits set, and no infinity.
struct Format {
  int exponent_bits, mantissa_bits;
  bool ieee = true;
};
constexpr Format kBfloat16{8, 7}, kFloat16{5, 10}, kE4M3{4, 3, false}, kE5M2{5, 2};

double Decode(const Format& format, uint32_t bits);
// `saturate`: what is too large becomes the largest finite value (fp8's satfinite).
uint32_t Encode(const Format& format, double value, Rounding rounding, bool saturate = false);

// A value of a floating type as a double, and back; the narrowest register bits.
double ToDouble(const Type& type, uint64_t bits);
uint64_t FromDouble(const Type& type, double value, Rounding rounding, bool saturate = false);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NUMBER_FORMATS_H_
