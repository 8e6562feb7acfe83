// Parameter sets: the unit that is gathered, reduced, updated, tiered and saved.
#ifndef STRATA_PROGRAM_IR_PARAMETER_SET_H_
#define STRATA_PROGRAM_IR_PARAMETER_SET_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/types.h"

namespace strata::program {

// How a tensor begins when it is not loaded.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal, kUniform } kind = Kind::kConstant;
  double value = 0;  // the constant, the standard deviation, or the bound: in (-value, value]
};

// What each of `ways` ranks holds of `whole` rows: an equal share. Where there is none, as for most
// vocabularies, shares are multiples of 8, so that rows of as many 16-bit numbers begin at
// multiples of 16 bytes, and the last ones end in padding.
int64_t ShareOf(int64_t whole, int64_t ways);

// How a rank's tensor is cut from the whole one: `ways` equal parts along a dimension, of which the
// rank holds the one of its index in the group. Of a fused tensor each part is cut by itself.
struct Cut {
  Group group = Group::kNone;
  int dimension = 0;    // 0 or 1
  int64_t ways = 1;     // 1: whole on every rank
  int64_t padding = 0;  // rows that all parts have beyond the whole; only of dimension 0, not fused
};

// A logical tensor inside a set's flat layout. A fused tensor (such as packed q, k, v) is one of
// these with `parts` naming what users see, row ranges of it in order.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // of this rank's cut
  Initializer initializer;
  bool decay = false;  // weight decay applies: two or more dimensions
  struct Part {
    std::string name;
    int64_t rows = 0;  // of dimension 0, of this rank's cut
  };
  std::vector<Part> parts;  // empty: the tensor itself
  Cut cut;
  int64_t offset = 0;  // elements, in the flat layout; set by FlattenSet

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  // Of dimension 0, what the rank with this index in the cut's group has without padding.
  int64_t held_rows(int64_t index) const {
    return cut.padding == 0
               ? shape[0]
               : std::clamp<int64_t>(shape[0] * (cut.ways - index) - cut.padding, 0, shape[0]);
  }
  int64_t whole_elements() const {  // of all ranks' cuts, without padding
    return (elements() / shape[0]) *
           (shape[0] * (cut.dimension == 0 ? cut.ways : 1) - cut.padding) *
           (cut.dimension == 0 ? 1 : cut.ways);
  }
  int part_count() const { return parts.empty() ? 1 : static_cast<int>(parts.size()); }
  // Of the logical tensor that users see and files hold: a part (0 where there are none), whole.
  const std::string& logical_name(int part) const {
    return parts.empty() ? name : parts[part].name;
  }
  std::vector<int64_t> logical_shape(int part) const {
    std::vector<int64_t> whole = shape;
    if (!parts.empty()) whole[0] = parts[part].rows;
    if (cut.ways > 1) whole[cut.dimension] = whole[cut.dimension] * cut.ways - cut.padding;
    return whole;
  }
};

// In sets of kInt8 a matrix [out, in] has beside it a tensor of this name behind its own: the f32
// scales of its rows, each as four elements, [out, 4].
inline constexpr char kRowScales[] = ".row_scales";
inline bool IsRowScales(const std::string& tensor) { return tensor.ends_with(kRowScales); }

struct ParameterSet {
  std::string name;
  std::vector<TensorSpec> tensors;
  bool trainable = true;
  Group gradient_group = Group::kData;  // who holds partial gradients of it
  bool counted_in_norm = true;          // on this rank; tied copies are counted once
  int64_t elements = 0;                 // of the flat layout, padding included; set by FlattenSet
  DType type = DType::kF32;             // of the weights as kernels read them
  // Elements: tensors begin at multiples of it, and ranges are some.
  int64_t alignment = 16;

  int64_t bytes() const { return BytesOf(type, elements); }  // of the weights
  // Of a gradient while kernels add to it: f32 whatever the weights are.
  int64_t gradient_bytes() const { return BytesOf(DType::kF32, elements); }
  int64_t parameters() const {  // without scales
    int64_t count = 0;
    for (const TensorSpec& tensor : tensors) {
      count += IsRowScales(tensor.name) ? 0 : tensor.elements();
    }
    return count;
  }
};

// Assigns offsets: each tensor at a multiple of the set's alignment (16 elements are 64 bytes of
// f32), the whole padded to `ranges` equal ranges that are multiples of it too, so that virtual
// shards and ranks own equal, aligned ranges.
void FlattenSet(ParameterSet& set, int64_t ranges);

// Elements that follow each other both in a set's flat layout (from `flat` on) and, row-major, in
// a whole logical tensor (from `first` on).
struct ElementRun {
  int tensor = 0;  // index in ParameterSet::tensors
  int part = 0;    // index in TensorSpec::parts, or 0
  int64_t flat = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// What [begin, end) of the flat layout holds on the rank with this index in the cuts' groups,
// ascending; padding is left out, that of cuts too, and is zero. A tensor cut along its columns has
// a run per row.
std::vector<ElementRun> ElementRuns(const ParameterSet& set, int64_t index, int64_t begin,
                                    int64_t end);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_PARAMETER_SET_H_
