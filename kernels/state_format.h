// The numbers that optimizers keep: weights of 16 bits with a master of 32, and moments of 32, 16
// or 8 bits. Everything is computed in f32; here it is read and written.
#ifndef STRATA_KERNELS_STATE_FORMAT_H_
#define STRATA_KERNELS_STATE_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/number_types.h"

namespace strata::kernels {

// The nearest, ties away from zero: what is left of a master after this rounding to bf16 is a
// number of 16 bits with a sign, which the remainder of a tie to even would not be. NaN stays NaN.
BFloat16 RoundAwayToBFloat16(float value);
Float16 RoundAwayToFloat16(float value);

// --- Moments.
//
// 8 bits: blocks of kMomentBlock elements have a scale, the element of the block that is farthest
// from zero, with its sign, and each element a code: the entry of a fixed table that is nearest to
// element / scale. The tables are bitsandbytes' "dynamic" ones (Dettmers et al., "8-bit Optimizers
// via Block-wise Quantization", ICLR 2022, §2): seven decades, each with twice as many entries as
// the one below it; for numbers of both signs 127 of each, 0 and 1; without sign 254, 0 and 1.
// Two differences from bitsandbytes: its scale has no sign, so that a block whose farthest element
// is negative loses it (-1 is no entry); and what is not zero stays so, lest a second moment that
// vanished make a step of m / epsilon. With these, numbers read and written again keep their bits.
inline constexpr int64_t kMomentBlock = 256;

enum class MomentFormat : uint8_t { kF32, kBF16, kSigned8, kUnsigned8 };

// `count` moments: in block formats a multiple of kMomentBlock, codes first, behind them the scales
// (f32).
struct Moments {
  MomentFormat format = MomentFormat::kF32;
  std::byte* data = nullptr;
  int64_t count = 0;
};
constexpr int64_t MomentBytes(MomentFormat format, int64_t count) {
  switch (format) {
    case MomentFormat::kF32:
      return count * 4;
    case MomentFormat::kBF16:
      return count * 2;
    case MomentFormat::kSigned8:
    case MomentFormat::kUnsigned8:
      return count + count / kMomentBlock * 4;
  }
  return 0;
}

// The entries of a block format's table, ascending; a code is an index.
const std::array<float, 256>& MomentTable(MomentFormat format);

// Where they lie in f32; null: they are in another format.
float* MomentsInF32(const Moments& moments);
// [begin, begin + size): in block formats whole blocks.
void ReadMoments(const Moments& moments, int64_t begin, int64_t size, float* out);
void WriteMoments(const Moments& moments, int64_t begin, int64_t size, const float* values);

// --- Weights.

// How weights have more bits than kernels read.
enum class MasterFormat : uint8_t {
  kNone,       // they are f32
  kF32,        // of their own
  kRemainder,  // bf16: master = the weight's bits << 16, plus a remainder of 16 bits with a sign
};

// Weights and what belongs to them. In another version's place, or the same.
struct Weights {
  NumberType type = NumberType::kF32;
  MasterFormat master_format = MasterFormat::kNone;
  std::byte* weights = nullptr;
  std::byte* master = nullptr;  // kNone: null
};

// Where the masters lie in f32, which are the weights where there are none; null: they do not.
float* MasterInF32(const Weights& weights);
// The f32 values: of the master where there is one.
void ReadMaster(const Weights& weights, int64_t begin, int64_t size, float* out);
// Writes both.
void WriteMaster(const Weights& weights, int64_t begin, int64_t size, const float* values);
// One of both, where they are kept in different ranges.
void WriteWeights(const Weights& weights, int64_t begin, int64_t size, const float* values);
// WriteWeights past the caches, which would fetch lines only to overwrite them: for many numbers of
// bf16 in whole vectors, which nobody reads soon. Other threads see them after an sfence.
void StreamWeights(const Weights& weights, int64_t begin, int64_t size, const float* values);
void WriteMasterOnly(const Weights& weights, int64_t begin, int64_t size, const float* values);

// --- Gradients, and whatever else has a plain type.
void ReadNumbers(NumberType type, const std::byte* data, int64_t begin, int64_t size, float* out);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_STATE_FORMAT_H_
