// Operands of updates in numbers of any types, as the kernels name them.
#ifndef STRATA_WORKER_ENGINE_BINDING_UPDATE_OPERANDS_H_
#define STRATA_WORKER_ENGINE_BINDING_UPDATE_OPERANDS_H_

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/optimizer_update.h"
#include "ops/update.h"
#include "worker/engine/binding/decay_segments.h"
#include "worker/engine/binding/number_formats.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

// What an update needs beside its rates.
struct UpdateOperands {
  kernels::NumbersOfUpdate numbers;
  std::vector<DecaySegment> segments;
  const double* scalars = nullptr;

  const double* at(program::Scalar scalar) const { return scalars + static_cast<int>(scalar); }
  double scalar(program::Scalar scalar) const { return *at(scalar); }
};

// Of the operands that are parts of whole slots.
inline int ShardIndexOf(const OpReader& reader) {
  int index = 0;
  for (int operand = 0; operand < reader.operands(); ++operand) {
    index = std::max(index, reader.operand(operand).shard_index);
  }
  return index;
}

inline UpdateOperands ReadUpdateOperands(OpReader& reader, const ops::UpdateNumbers& of) {
  using ops::UpdateNumbers;
  UpdateOperands bound{.scalars = reader.Scalars(UpdateNumbers::kScalars)};
  kernels::NumbersOfUpdate& numbers = bound.numbers;
  numbers.gradient_type = NumberTypeOf(of.gradient);
  numbers.gradient = reader.Data(UpdateNumbers::kGradient);
  numbers.weights.type = NumberTypeOf(of.weights);
  if (of.has_master()) numbers.weights.master_format = MasterFormatOf(of.master);
  numbers.next_weights = numbers.weights;
  if (of.reads_weights()) numbers.weights.weights = reader.Data(of.read_weights());
  numbers.next_weights.weights = reader.Data(UpdateNumbers::kNextWeights);
  int state = 0;
  const auto take = [&](std::byte*& now, std::byte*& next) {
    now = reader.Data(UpdateNumbers::kStates + state);
    next = reader.Data(of.next_state(state));
    ++state;
  };
  if (of.has_master()) take(numbers.weights.master, numbers.next_weights.master);
  for (int m = 0; m < of.moment_count; ++m) {
    numbers.moments[m] = {.format = MomentFormatOf(of.moments[m]), .count = of.count};
    numbers.next_moments[m] = numbers.moments[m];
    take(numbers.moments[m].data, numbers.next_moments[m].data);
  }
  bound.segments = CutAtDecay(of.decay, ShardIndexOf(reader) * of.stride + of.first, of.count,
                              of.has_blocks() ? program::kStateBlock : 16);
  for (const DecaySegment& segment : bound.segments) {
    if (!of.has_blocks() || segment.begin % program::kStateBlock == 0) continue;
    reader.Fail(absl::InvalidArgumentError(
        absl::StrCat("weight decay begins inside a block, at element ", segment.begin)));
  }
  return bound;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_UPDATE_OPERANDS_H_
