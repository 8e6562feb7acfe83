#include "checkpoint/dtype.h"

#include <bit>
#include <cstring>

#include "common/check.h"

namespace strata::checkpoint {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int64_t bytes;
};

constexpr Row kRows[] = {
    {DType::kBool, "BOOL", 1},      {DType::kU8, "U8", 1},          {DType::kI8, "I8", 1},
    {DType::kF8E4M3, "F8_E4M3", 1}, {DType::kF8E5M2, "F8_E5M2", 1}, {DType::kI16, "I16", 2},
    {DType::kU16, "U16", 2},        {DType::kF16, "F16", 2},        {DType::kBF16, "BF16", 2},
    {DType::kI32, "I32", 4},        {DType::kU32, "U32", 4},        {DType::kF32, "F32", 4},
    {DType::kF64, "F64", 8},        {DType::kI64, "I64", 8},        {DType::kU64, "U64", 8},
};

const Row& RowOf(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  STRATA_CHECK(false);
}

// IEEE 754 binary16: five exponent bits (bias 15), ten mantissa bits.
float WidenHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// To nearest, ties to even: a carry out of the mantissa grows the exponent, as it should.
uint16_t NarrowBrain(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 64);  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t NarrowHalf(uint32_t bits) {
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;               // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;              // from 65520 on: infinity
  if (magnitude < 0x38800000u) {                                   // below 2^-14: subnormal
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;  // rounds to multiples of 2^-24
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rebased = magnitude - (uint32_t{127 - 15} << 23);
  return static_cast<uint16_t>(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
}

}  // namespace

int64_t SizeOf(DType dtype) { return RowOf(dtype).bytes; }
const char* NameOf(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

bool WidenToFloat(DType dtype, const void* elements, int64_t count, float* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, elements, static_cast<size_t>(count) * sizeof(float));
    return true;
  }
  if (dtype != DType::kBF16 && dtype != DType::kF16) return false;
  const char* const bytes = static_cast<const char*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
    out[i] = dtype == DType::kF16 ? WidenHalf(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
  }
  return true;
}

bool NarrowFromFloat(DType dtype, const float* values, int64_t count, void* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
    return true;
  }
  if (dtype != DType::kBF16 && dtype != DType::kF16) return false;
  const uint16_t infinity = dtype == DType::kF16 ? 0x7c00 : 0x7f80;
  bool held = true;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const uint16_t narrow = dtype == DType::kF16 ? NarrowHalf(bits) : NarrowBrain(bits);
    held &= (narrow & 0x7fff) != infinity || (bits & 0x7fffffffu) == 0x7f800000u;
    std::memcpy(static_cast<char*>(out) + 2 * i, &narrow, sizeof(narrow));
  }
  return held;
}

}  // namespace strata::checkpoint
