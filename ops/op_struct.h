// What the struct of an op consists of, and what follows from it.
//
//   struct RmsNormForward {
//     static constexpr program::OpKind kKind = ...;
//     static constexpr const char* kSummary = ...;     // for docs/ops.md, with its source
//     int64_t rows = 0, ...;                           // typed attributes
//     enum { kX, kW, ... };                            // operands' indices
//     void Visit(AttributeVisitor& visitor);           // the attributes, in the order of the ints
//     OperandSpecs Operands() const;                   // without the workspace
//     static RmsNormForward Example();                 // small; documentation and tests use it
//     // And where there is something to say:
//     absl::Status Validate() const;                   // what attributes must be beyond their
//     kinds double Flops() const;                            // else 0 double BytesMoved() const;
//     // else every operand once, in place twice int64_t WorkspaceBytes(const Backend&) const; //
//     else none; the workspace is the last operand static constexpr const char *kFlops, *kGradient;
//     // the same for people
//   };
#ifndef STRATA_OPS_OP_STRUCT_H_
#define STRATA_OPS_OP_STRUCT_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ops/attributes.h"
#include "ops/backend.h"
#include "ops/operand_spec.h"
#include "program/ir/op.h"

namespace strata::ops {

template <typename T>
concept HasWorkspace = requires(const T op, const Backend backend) {
  op.WorkspaceBytes(backend);
};

template <typename T>
double FlopsOf(const T& op) {
  if constexpr (requires { op.Flops(); }) return op.Flops();
  return 0;
}

template <typename T>
double BytesMovedOf(const T& op) {
  if constexpr (requires { op.BytesMoved(); }) {
    return op.BytesMoved();
  } else {
    double bytes = 0;
    for (const OperandSpec& spec : op.Operands()) {
      bytes +=
          static_cast<double>(spec.bytes()) * (spec.access == program::Access::kAccumulate ? 2 : 1);
    }
    return bytes;
  }
}

// Kind, attributes and FLOPs; operands are the caller's.
template <typename T>
program::Op ToOp(T attributes) {
  program::Op op;
  op.kind = T::kKind;
  op.flops = FlopsOf(attributes);
  if constexpr (requires { attributes.communication; }) op.communication = attributes.communication;
  AttributeWriter writer(op);
  attributes.Visit(writer);
  return op;
}

// InvalidArgument: another kind, or attributes that it cannot have.
template <typename T>
absl::StatusOr<T> FromOp(const program::Op& op) {
  if (op.kind != T::kKind) {
    return absl::InvalidArgumentError(absl::StrCat("is ", Name(op.kind), ", not ", Name(T::kKind)));
  }
  T attributes;
  if constexpr (requires { attributes.communication; }) attributes.communication = op.communication;
  AttributeReader reader(op);
  attributes.Visit(reader);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if constexpr (requires { attributes.Validate(); }) {
    if (absl::Status status = attributes.Validate(); !status.ok()) return status;
  }
  return attributes;
}

// InvalidArgument unless `condition`.
inline absl::Status Require(bool condition, const char* otherwise) {
  return condition ? absl::OkStatus() : absl::InvalidArgumentError(otherwise);
}

}  // namespace strata::ops

#endif  // STRATA_OPS_OP_STRUCT_H_
