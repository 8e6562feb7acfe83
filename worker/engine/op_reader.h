// How binders look at one op: typed attributes, places of operands, and the first thing that is
// wrong.
#ifndef STRATA_WORKER_ENGINE_OP_READER_H_
#define STRATA_WORKER_ENGINE_OP_READER_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/op_struct.h"
#include "program/ir/op.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

class OpReader {
 public:
  OpReader(const program::Op& op, absl::Span<const BoundOperand> operands,
           const OpEnvironment& environment)
      : op_(op), operands_(operands), environment_(environment) {}

  // The attributes, when they are possible and the operands are as many and at least as large as
  // ops/ says; else nothing, and the status tells why. Operands may then be asked for by the
  // struct's indices.
  template <typename T>
  std::optional<T> Read() {
    absl::StatusOr<T> attributes = ops::FromOp<T>(op_);
    if (!attributes.ok()) {
      Fail(attributes.status());
      return std::nullopt;
    }
    ExpectOperands(attributes->Operands(), ops::HasWorkspace<T>);
    if (!status_.ok()) return std::nullopt;
    return *std::move(attributes);
  }

  template <typename T>
  T* As(int index) const {
    return reinterpret_cast<T*>(Data(index));
  }
  float* F32(int index) const { return As<float>(index); }
  double* F64(int index) const { return reinterpret_cast<double*>(Data(index)); }
  int32_t* I32(int index) const { return reinterpret_cast<int32_t*>(Data(index)); }
  std::byte* Data(int index) const { return operands_[index].data; }
  // The first scalar of the block that operand `index` lies in.
  double* Scalars(int index) const { return reinterpret_cast<double*>(operands_[index].slot); }
  // The workspace, behind the other operands: null when the op has none and nothing is needed.
  void* Workspace(int64_t needed_bytes);
  const BoundOperand& operand(int index) const { return operands_[index]; }
  int operands() const { return static_cast<int>(operands_.size()); }

  const program::Op& op() const { return op_; }
  const OpEnvironment& environment() const { return environment_; }
  kernels::Context context() const { return environment_.context; }
  // This rank's place in a group; 0: alone.
  int64_t IndexIn(program::Group group) const {
    const auto found = environment_.group_indices.find(group);
    return found == environment_.group_indices.end() ? 0 : found->second;
  }
  int threads() const { return environment_.context.pool->threads(); }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  void ExpectOperands(const ops::OperandSpecs& specs, bool workspace);
  void ExpectRoom(const BoundOperand& operand, const ops::OperandSpec& spec);

  const program::Op& op_;
  absl::Span<const BoundOperand> operands_;
  const OpEnvironment& environment_;
  size_t specified_ = 0;  // operands without the workspace
  absl::Status status_;
};

// A binder reads the op and returns the call; what it returns counts only if the reader's status is
// OK. In binding/, by the files of ops/.
using Binder = BoundOp (*)(OpReader& reader);

BoundOp BindLoadBatch(OpReader& reader);
BoundOp BindLoadScalars(OpReader& reader);
BoundOp BindMatMul(OpReader& reader);
BoundOp BindEmbeddingForward(OpReader& reader);
BoundOp BindEmbeddingBackward(OpReader& reader);
BoundOp BindRmsNormForward(OpReader& reader);
BoundOp BindAddRmsNormForward(OpReader& reader);
BoundOp BindRmsNormReplay(OpReader& reader);
BoundOp BindRmsNormBackward(OpReader& reader);
BoundOp BindLayerNormForward(OpReader& reader);
BoundOp BindAddLayerNormForward(OpReader& reader);
BoundOp BindLayerNormReplay(OpReader& reader);
BoundOp BindLayerNormBackward(OpReader& reader);
BoundOp BindHeadNormForward(OpReader& reader);
BoundOp BindHeadNormReplay(OpReader& reader);
BoundOp BindHeadNormBackward(OpReader& reader);
BoundOp BindAddBias(OpReader& reader);
BoundOp BindBiasGradient(OpReader& reader);
BoundOp BindAddPositions(OpReader& reader);
BoundOp BindPositionsGradient(OpReader& reader);
BoundOp BindRope(OpReader& reader);
BoundOp BindAttentionForward(OpReader& reader);
BoundOp BindAttentionBackward(OpReader& reader);
BoundOp BindAttentionDecode(OpReader& reader);
BoundOp BindAttentionPart(OpReader& reader);
BoundOp BindAttentionPartBackward(OpReader& reader);
BoundOp BindAttentionDelta(OpReader& reader);
BoundOp BindMoveBlocks(OpReader& reader);
BoundOp BindOrderRows(OpReader& reader);
BoundOp BindSwigluForward(OpReader& reader);
BoundOp BindSwigluBackward(OpReader& reader);
BoundOp BindActivate(OpReader& reader);
BoundOp BindActivateBackward(OpReader& reader);
BoundOp BindSoftcap(OpReader& reader);
BoundOp BindCrossEntropy(OpReader& reader);
BoundOp BindCrossEntropyLoss(OpReader& reader);
BoundOp BindCrossEntropyStatistics(OpReader& reader);
BoundOp BindCrossEntropyFinish(OpReader& reader);
BoundOp BindTakeHeads(OpReader& reader);
BoundOp BindAddHeads(OpReader& reader);
BoundOp BindAdd(OpReader& reader);
BoundOp BindCopy(OpReader& reader);
BoundOp BindZero(OpReader& reader);
BoundOp BindScale(OpReader& reader);
BoundOp BindDequantise(OpReader& reader);
BoundOp BindDequantiseRows(OpReader& reader);
BoundOp BindSumSquares(OpReader& reader);
BoundOp BindFinishStep(OpReader& reader);
BoundOp BindAdamW(OpReader& reader);
BoundOp BindAdamWFixUp(OpReader& reader);
BoundOp BindConvert(OpReader& reader);
BoundOp BindMixedAdamW(OpReader& reader);
BoundOp BindSgd(OpReader& reader);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_OP_READER_H_
