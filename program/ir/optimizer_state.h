// What an optimizer keeps of a set beside the weights that kernels read, and in which numbers.
#ifndef STRATA_PROGRAM_IR_OPTIMIZER_STATE_H_
#define STRATA_PROGRAM_IR_OPTIMIZER_STATE_H_

#include <cstdint>
#include <string>

#include "program/ir/types.h"

namespace strata::program {

// How the numbers of a state are kept (kernels/state_format.h computes with them).
enum class StateFormat : uint8_t {
  kF32,
  kBF16,
  kRemainder,  // the 16 bits that a bf16 weight lacks to be the f32 master that it was rounded from
  // Blocks of kStateBlock elements: a code of 8 bits for each element, then, behind the codes of
  // all blocks, an f32 scale for each block (Dettmers et al., "8-bit Optimizers via Block-wise
  // Quantization", ICLR 2022). Codes of numbers of both signs, and of numbers without.
  kSigned8,
  kUnsigned8,
};
const char* Name(StateFormat);

// Sets with states in blocks are laid out so that no block has elements of two tensors or two
// ranges (ParameterSet::alignment).
inline constexpr int64_t kStateBlock = 256;

constexpr bool HasBlocks(StateFormat format) {
  return format == StateFormat::kSigned8 || format == StateFormat::kUnsigned8;
}
// Of `elements` of a set's flat layout, whole blocks where there are blocks.
constexpr int64_t BytesOf(StateFormat format, int64_t elements) {
  switch (format) {
    case StateFormat::kF32:
      return elements * 4;
    case StateFormat::kBF16:
    case StateFormat::kRemainder:
      return elements * 2;
    case StateFormat::kSigned8:
    case StateFormat::kUnsigned8:
      return elements + elements / kStateBlock * 4;
  }
  return 0;
}

struct StateSpec {
  std::string name;   // as checkpoints have it: "adam.m"
  std::string title;  // for people: "first moment"
  StateFormat format = StateFormat::kF32;

  bool operator==(const StateSpec&) const = default;
};

// What one update is of: of each rank's part of a set's flat layout, which begin `stride` elements
// apart in it, the elements [first, first + count).
struct UpdateRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t stride = 0;
};

// The state that holds the weights of a set in more bits than kernels read. Checkpoints have it as
// the parameter itself.
inline constexpr char kMasterState[] = "param";

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_OPTIMIZER_STATE_H_
