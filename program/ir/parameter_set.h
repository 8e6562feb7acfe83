// Parameter sets: the unit that is gathered, reduced, updated, tiered and saved.
#ifndef STRATA_PROGRAM_IR_PARAMETER_SET_H_
#define STRATA_PROGRAM_IR_PARAMETER_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/types.h"

namespace strata::program {

// How a tensor begins when it is not loaded.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal } kind = Kind::kConstant;
  double value = 0;  // the constant, or the standard deviation
};

// A logical tensor inside a set's flat layout. A fused tensor (such as packed q, k, v) is one of
// these with `parts` naming what users see, row ranges of it in order.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  Initializer initializer;
  bool decay = false;  // weight decay applies: two or more dimensions
  struct Part {
    std::string name;
    int64_t rows = 0;  // of dimension 0
  };
  std::vector<Part> parts;  // empty: the tensor itself
  int64_t offset = 0;       // elements, in the flat layout; set by FlattenSet

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
};

struct ParameterSet {
  std::string name;
  std::vector<TensorSpec> tensors;
  bool trainable = true;
  Group gradient_group = Group::kData;  // who holds partial gradients of it
  bool counted_in_norm = true;          // on this rank; tied copies are counted once
  int64_t elements = 0;                 // of the flat layout, padding included; set by FlattenSet

  int64_t bytes() const { return elements * 4; }  // f32
  int64_t parameters() const {
    int64_t count = 0;
    for (const TensorSpec& tensor : tensors) count += tensor.elements();
    return count;
  }
};

// Assigns offsets: each tensor at a multiple of 16 elements (64 bytes), the whole padded to
// `ranges` equal ranges that are multiples of 16 elements too, so that virtual shards and ranks own
// equal, aligned ranges.
void FlattenSet(ParameterSet& set, int64_t ranges);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_PARAMETER_SET_H_
