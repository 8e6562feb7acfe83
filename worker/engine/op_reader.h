// How binders look at one op: typed operands, attributes, and the first thing that is wrong.
#ifndef STRATA_WORKER_ENGINE_OP_READER_H_
#define STRATA_WORKER_ENGINE_OP_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "program/ir/op.h"
#include "program/ir/scalars.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

// Accessors never fail: what is out of range reads as null or 0 and sets the status, which the
// binder's caller looks at before it uses the result.
class OpReader {
 public:
  OpReader(const program::Op& op, absl::Span<const BoundOperand> operands,
           const OpEnvironment& environment)
      : op_(op), operands_(operands), environment_(environment) {}

  // The op has `count` operands, or `most` at the most; at least `ints` and `floats` attributes,
  // none of the ints negative.
  void ExpectForm(int count, int most, int ints, int floats);
  // Operand `index` has room for `count` elements of `size` bytes.
  void ExpectRoom(int index, int64_t count, int64_t size);
  void ExpectFloats(int index, int64_t count) { ExpectRoom(index, count, 4); }
  // `condition` holds of the attributes; `what` says it.
  void ExpectThat(bool condition, const char* what);
  // The workspace, operand `index` if there is one: null when nothing is needed.
  void* Workspace(int index, int64_t needed_bytes);

  int64_t Int(int index) const {
    return index < static_cast<int>(op_.ints.size()) ? op_.ints[index] : 0;
  }
  double Float(int index) const {
    return index < static_cast<int>(op_.floats.size()) ? op_.floats[index] : 0;
  }
  float* F32(int index) const { return reinterpret_cast<float*>(Data(index)); }
  double* F64(int index) const { return reinterpret_cast<double*>(Data(index)); }
  int32_t* I32(int index) const { return reinterpret_cast<int32_t*>(Data(index)); }
  std::byte* Data(int index) const;
  // The scalar block that operand `index` lies in; the operand must cover the scalars from `first`
  // to `last`.
  double* Scalars(int index, program::Scalar first, program::Scalar last);
  int operands() const { return static_cast<int>(operands_.size()); }
  const BoundOperand& operand(int index) const { return operands_[index]; }

  const program::Op& op() const { return op_; }
  const OpEnvironment& environment() const { return environment_; }
  kernels::Context context() const { return environment_.context; }
  int threads() const { return environment_.context.pool->threads(); }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  const program::Op& op_;
  absl::Span<const BoundOperand> operands_;
  const OpEnvironment& environment_;
  absl::Status status_;
};

// A binder reads the op and returns the call; what it returns counts only if the reader's status is
// OK.
using Binder = BoundOp (*)(OpReader& reader);

// By family: model ops in model_binders.cc, state and step ops in step_binders.cc.
BoundOp BindMatMul(OpReader& reader);
BoundOp BindEmbeddingForward(OpReader& reader);
BoundOp BindEmbeddingBackward(OpReader& reader);
BoundOp BindRmsNormForward(OpReader& reader);
BoundOp BindAddRmsNormForward(OpReader& reader);
BoundOp BindRmsNormReplay(OpReader& reader);
BoundOp BindRmsNormBackward(OpReader& reader);
BoundOp BindRope(OpReader& reader);
BoundOp BindAttentionForward(OpReader& reader);
BoundOp BindAttentionBackward(OpReader& reader);
BoundOp BindAttentionDecode(OpReader& reader);
BoundOp BindSwigluForward(OpReader& reader);
BoundOp BindSwigluBackward(OpReader& reader);
BoundOp BindCrossEntropy(OpReader& reader);
BoundOp BindCrossEntropyLoss(OpReader& reader);

BoundOp BindLoadBatch(OpReader& reader);
BoundOp BindLoadScalars(OpReader& reader);
BoundOp BindAdd(OpReader& reader);
BoundOp BindCopy(OpReader& reader);
BoundOp BindZero(OpReader& reader);
BoundOp BindSumSquares(OpReader& reader);
BoundOp BindFinishStep(OpReader& reader);
BoundOp BindAdamW(OpReader& reader);
BoundOp BindAdamWFixUp(OpReader& reader);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_OP_READER_H_
