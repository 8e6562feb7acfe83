#include "ops/positions.h"

#include <algorithm>

namespace strata::ops {
namespace {

using program::Access;
using program::DType;
using program::Scalar;

template <typename Op>
void VisitTable(Op& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("sequence", op.sequence);
  visitor.Size("channels", op.channels);
  visitor.Size("context", op.context);
}

template <typename Op>
absl::Status RequireRoom(const Op& op) {
  return Require(op.documents || std::min(op.rows * op.parts, op.sequence) <= op.context,
                 "a sequence is longer than the table");
}

// Behind the other attributes, which ops of one rank have alone.
template <typename Op>
void VisitGroup(Op& op, AttributeVisitor& visitor) {
  const bool whole = op.first == 0 && op.group == program::Group::kNone && op.parts == 1;
  if (!visitor.HasMore(!whole)) return;
  visitor.Count("first", op.first);
  visitor.Of("group", op.group);
  visitor.Size("parts", op.parts);
}

OperandSpec PositionsOf(int64_t rows) { return In("positions", "[parts × N]", rows, DType::kI32); }

}  // namespace

void AddPositions::Visit(AttributeVisitor& visitor) {
  VisitTable(*this, visitor);
  visitor.Flag("use_position", use_position);
  visitor.Flag("documents", documents);
  visitor.Type("type", type);
  VisitGroup(*this, visitor);
}

absl::Status AddPositions::Validate() const {
  if (documents && use_position) return Require(false, "rows have positions twice");
  // A chunk may be longer than the context: then it is never full.
  if (use_position) return Require(rows == sequence, "rows at a position are of one sequence");
  return RequireRoom(*this);
}

OperandSpecs AddPositions::Operands() const {
  OperandSpecs operands = {InOut("y", "[N, C]", rows * channels, type),
                           In("table", "[context, C]", context * channels, type)};
  if (use_position) {
    operands.push_back(
        Scalars("scalars", "kPosition", Access::kRead, Scalar::kPosition, Scalar::kPosition));
  }
  if (documents) operands.push_back(PositionsOf(rows * parts));
  return operands;
}

double AddPositions::BytesMoved() const {
  return static_cast<double>(SizeOf(type) * (2 * rows + std::min(rows, sequence)) * channels);
}

void PositionsGradient::Visit(AttributeVisitor& visitor) {
  VisitTable(*this, visitor);
  visitor.Flag("documents", documents);
  visitor.Type("type", type);
  VisitGroup(*this, visitor);
}

absl::Status PositionsGradient::Validate() const { return RequireRoom(*this); }

OperandSpecs PositionsGradient::Operands() const {
  OperandSpecs operands = {In("dy", "[N, C]", rows * channels, type),
                           InOut("dtable", "[context, C]", context * channels)};
  if (documents) operands.push_back(PositionsOf(rows * parts));
  return operands;
}

double PositionsGradient::BytesMoved() const {
  return static_cast<double>((SizeOf(type) * rows + 8 * std::min({rows, sequence, context})) *
                             channels);
}

}  // namespace strata::ops
