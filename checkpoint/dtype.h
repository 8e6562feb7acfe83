// Types of stored elements, by their names in the safetensors format.
#ifndef STRATA_CHECKPOINT_DTYPE_H_
#define STRATA_CHECKPOINT_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace strata::checkpoint {

// Types of whole bytes; the format's four- and six-bit types are not supported.
enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

int64_t SizeOf(DType dtype);  // bytes
const char* NameOf(DType dtype);
std::optional<DType> DTypeFromName(const std::string& name);

// Widens `count` elements to float, exactly. False for types that float cannot hold exactly or that
// are not floating point (only F32, BF16 and F16 can be widened).
bool WidenToFloat(DType dtype, const void* elements, int64_t count, float* out);

// Rounds `count` floats to F32, BF16 or F16: to the nearest, ties to even. False when the type is
// another, or a finite value lies beyond what it holds (which becomes an infinity).
bool NarrowFromFloat(DType dtype, const float* values, int64_t count, void* out);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_DTYPE_H_
