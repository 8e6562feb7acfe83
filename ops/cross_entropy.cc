#include "ops/cross_entropy.h"

namespace strata::ops {
namespace {

using program::Access;
using program::DType;
using program::Scalar;

template <typename Loss>
void VisitLoss(Loss& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("vocab", op.vocab);
}

template <typename Loss>
void VisitCapped(Loss& op, AttributeVisitor& visitor) {
  if (visitor.HasMore(op.type != DType::kF32 || op.softcap != 0)) {
    visitor.Type("type", op.type);
    visitor.Number("softcap", op.softcap);
  }
}

// Of a part.
template <typename Loss>
void VisitPart(Loss& op, AttributeVisitor& visitor) {
  if (visitor.HasMore(op.type != DType::kF32 || op.softcap != 0 || op.whole != 0)) {
    visitor.Type("type", op.type);
    visitor.Number("softcap", op.softcap);
  }
  if (visitor.HasMore(op.whole != 0)) visitor.Count("whole", op.whole);
}

absl::Status RequireCap(double softcap) { return Require(softcap >= 0, "the softcap is negative"); }

OperandSpec InverseTokens() {
  return Scalars("scalars", "kInverseTokens", Access::kRead, Scalar::kInverseTokens,
                 Scalar::kInverseTokens);
}

OperandSpec Targets(int64_t rows) { return In("targets", "[N]", rows, DType::kI32); }
OperandSpec LossSum() { return InOut("loss", "[]", 1, DType::kF64); }

int64_t RowLosses(int64_t rows) { return common::RoundUp(rows * 8, program::kSlotAlignment); }

}  // namespace

void CrossEntropy::Visit(AttributeVisitor& visitor) {
  VisitLoss(*this, visitor);
  VisitCapped(*this, visitor);
}

absl::Status CrossEntropy::Validate() const { return RequireCap(softcap); }

OperandSpecs CrossEntropy::Operands() const {
  return {InOut("logits", "[N, V]", rows * vocab, type), Targets(rows), InverseTokens(), LossSum()};
}

int64_t CrossEntropy::WorkspaceBytes(const Backend&) const { return RowLosses(rows); }

void CrossEntropyLoss::Visit(AttributeVisitor& visitor) {
  VisitLoss(*this, visitor);
  VisitCapped(*this, visitor);
}

absl::Status CrossEntropyLoss::Validate() const { return RequireCap(softcap); }

OperandSpecs CrossEntropyLoss::Operands() const {
  return {In("logits", "[N, V]", rows * vocab, type), Targets(rows), LossSum()};
}

int64_t CrossEntropyLoss::WorkspaceBytes(const Backend&) const { return RowLosses(rows); }

CrossEntropyStatistics CrossEntropyStatistics::Example() {
  return {.rows = 3, .vocab = 7, .group = program::Group::kTensor};
}

void CrossEntropyStatistics::Visit(AttributeVisitor& visitor) {
  VisitLoss(*this, visitor);
  visitor.Of("group", group);
  VisitPart(*this, visitor);
}

absl::Status CrossEntropyStatistics::Validate() const { return RequireCap(softcap); }

OperandSpecs CrossEntropyStatistics::Operands() const {
  return {In("logits", "[N, V]", rows * vocab, type), Targets(rows),
          Out("statistics", "[N, 3]", rows * 3)};
}

CrossEntropyFinish CrossEntropyFinish::Example() {
  return {.rows = 3, .vocab = 7, .group = program::Group::kTensor, .parts = 2};
}

void CrossEntropyFinish::Visit(AttributeVisitor& visitor) {
  VisitLoss(*this, visitor);
  visitor.Of("group", group);
  visitor.Size("parts", parts);
  VisitPart(*this, visitor);
}

absl::Status CrossEntropyFinish::Validate() const { return RequireCap(softcap); }

OperandSpecs CrossEntropyFinish::Operands() const {
  return {InOut("logits", "[N, V]", rows * vocab, type), Targets(rows),
          In("statistics", "[parts, N, 3]", parts * rows * 3), InverseTokens(), LossSum()};
}

}  // namespace strata::ops
