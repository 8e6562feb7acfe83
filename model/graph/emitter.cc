#include "model/graph/emitter.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/units.h"
#include "program/ir/scalars.h"

namespace strata::model {

using program::Role;

int64_t CacheHalfBytes(int64_t context, int64_t kv_heads, int64_t head_size, program::DType type) {
  return common::RoundUp(program::BytesOf(type, context * kv_heads * head_size),
                         program::kSlotAlignment);
}

Emitter::Emitter(const Graph& graph, const PassShape& shape,
                 const std::vector<WeightPlace>& weights, const std::string& name)
    : graph_(graph), shape_(shape), weights_(weights), builder_(name, shape.backend) {
  STRATA_CHECK(graph.degree == shape.degree);
}

void Emitter::SetRows(int64_t first, int64_t count) {
  first_ = first;
  rows_ = count;
}

View Emitter::Of(ValueId value) const {
  const Placed& place = places_.at(value);
  const int64_t split = Split(value);
  return place.view.As(graph_.values[value].type)
      .Rows((first_ - place.origin) / split, rows_ / split, width(value));
}

View Emitter::Out(const Node& node, size_t index) {
  const ValueId value = node.out[index];
  if ((node.discarded >> index & 1) == 0) return Of(value);
  const program::DType type = graph_.values[value].type;
  return builder_
      .Local(graph_.values[value].name, program::BytesOf(type, rows(value) * width(value)))
      .As(type);
}

View Emitter::Weight(WeightId weight) {
  const WeightPlace& place = weights_[weight];
  const View set =
      builder_.Formal(Role::kParameters, place.set, place.set_bytes, place.set_name).As(place.type);
  if (place.quantised.empty()) return set.Elements(place.offset, place.elements);
  View& numbers = dequantised_[weight];
  if (numbers.slot < 0) numbers = Dequantised(place, set, graph_.weights[weight].tensor.name);
  return numbers;
}

View Emitter::Dequantised(const WeightPlace& place, const View& set, const std::string& name) {
  int64_t elements = 0;
  for (const WeightPlace::Piece& piece : place.quantised) elements += piece.elements;
  const View numbers =
      builder_.Local(absl::StrCat(name, " dequantised"), program::BytesOf(graph_.type, elements))
          .As(graph_.type);
  int64_t first = 0;
  for (const WeightPlace::Piece& piece : place.quantised) {
    const View kept = set.Elements(piece.offset, piece.elements);
    const View out = numbers.Elements(first, piece.elements);
    if (piece.rows > 0) {
      DequantiseRows(builder_, kept,
                     set.Part(piece.scales, 4 * piece.rows).As(program::DType::kF32), out);
    } else {
      Dequantise(builder_, kept, out);
    }
    first += piece.elements;
  }
  return numbers;
}

View Emitter::Gradient(WeightId weight) {
  const WeightPlace& place = weights_[weight];
  const bool whole = graph_.weights[weight].cut < 0;
  program::Partial partial = whole ? program::PartialOver(shape_.group()) : 0;
  // Each rank of a context group has some of the rows.
  if (shape_.context_ranks > 1) partial |= program::PartialOver(program::Group::kContext);
  if (!graph_.weights[weight].trainable) {
    const View unused = builder_.Local("frozen gradient", place.elements * 4).Marked(partial);
    Zero(builder_, unused);
    return unused;
  }
  return builder_
      .Formal(Role::kGradients, place.set, place.gradient_bytes,
              absl::StrCat(place.set_name, " gradients"))
      .Elements(place.offset, place.elements)
      .Marked(partial);
}

View Emitter::Scalars() {
  return builder_.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars");
}

View Emitter::Loss() { return builder_.Formal(Role::kLoss, 0, 8, "loss"); }

View Emitter::Scratch(const std::string& name, int64_t elements, program::DType type) {
  const int64_t bytes = program::BytesOf(type, elements);
  View& view = scratch_[absl::StrCat(name, " ", bytes)];
  if (view.slot < 0) view = builder_.Local(name, bytes, program::SlotClass::kCommunication);
  return view.As(type);
}

}  // namespace strata::model
