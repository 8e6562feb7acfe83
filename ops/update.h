// What updates of weights, moments and gradients in any types have in common.
#ifndef STRATA_OPS_UPDATE_H_
#define STRATA_OPS_UPDATE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "ops/op_struct.h"
#include "program/ir/optimizer_state.h"

namespace strata::ops {

// Of a set's flat layout `count` elements from (index in the operands' shard group) × stride +
// first on.
// Operands: gradient, scalars, next weights; then the states (the master first, where weights have
// fewer bits than f32) and the next states; last the weights, where they tell something that the
// master does not.
struct UpdateNumbers {
  enum { kGradient, kScalars, kNextWeights, kStates };

  int64_t count = 0;
  int64_t first = 0, stride = 0;
  program::DType weights = program::DType::kF32;
  program::DType gradient = program::DType::kF32;
  program::StateFormat master = program::StateFormat::kF32;  // of other weights than f32
  int moment_count = 2;                                      // of the op
  std::array<program::StateFormat, 2> moments{};
  std::vector<Range> decay;  // ranges of the whole flat layout

  bool has_master() const { return weights != program::DType::kF32; }
  bool reads_weights() const { return !has_master() || master == program::StateFormat::kRemainder; }
  // Of all states in their order.
  std::vector<program::StateFormat> states() const;
  int next_state(int state) const { return kStates + static_cast<int>(states().size()) + state; }
  int read_weights() const { return kStates + 2 * static_cast<int>(states().size()); }
  // Whether some state is in blocks, of which the count is then a multiple.
  bool has_blocks() const;

  void Visit(AttributeVisitor& visitor);
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  static UpdateNumbers Example(int moment_count);
};

}  // namespace strata::ops

#endif  // STRATA_OPS_UPDATE_H_
