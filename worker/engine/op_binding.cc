#include "worker/engine/op_binding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::OpKind;

// Kinds that are not here have no kernel yet; collectives are no kernels (communication_binding.h).
struct TableEntry {
  OpKind kind;
  Binder bind;
};
constexpr TableEntry kTable[] = {
    {OpKind::kLoadBatch, BindLoadBatch},
    {OpKind::kLoadScalars, BindLoadScalars},
    {OpKind::kMatMul, BindMatMul},
    {OpKind::kEmbeddingForward, BindEmbeddingForward},
    {OpKind::kEmbeddingBackward, BindEmbeddingBackward},
    {OpKind::kRmsNormForward, BindRmsNormForward},
    {OpKind::kAddRmsNormForward, BindAddRmsNormForward},
    {OpKind::kRmsNormReplay, BindRmsNormReplay},
    {OpKind::kRmsNormBackward, BindRmsNormBackward},
    {OpKind::kLayerNormForward, BindLayerNormForward},
    {OpKind::kAddLayerNormForward, BindAddLayerNormForward},
    {OpKind::kLayerNormReplay, BindLayerNormReplay},
    {OpKind::kLayerNormBackward, BindLayerNormBackward},
    {OpKind::kHeadNormForward, BindHeadNormForward},
    {OpKind::kHeadNormReplay, BindHeadNormReplay},
    {OpKind::kHeadNormBackward, BindHeadNormBackward},
    {OpKind::kAddBias, BindAddBias},
    {OpKind::kBiasGradient, BindBiasGradient},
    {OpKind::kAddPositions, BindAddPositions},
    {OpKind::kPositionsGradient, BindPositionsGradient},
    {OpKind::kRope, BindRope},
    {OpKind::kAttentionForward, BindAttentionForward},
    {OpKind::kAttentionBackward, BindAttentionBackward},
    {OpKind::kAttentionDecode, BindAttentionDecode},
    {OpKind::kAttentionPart, BindAttentionPart},
    {OpKind::kAttentionPartBackward, BindAttentionPartBackward},
    {OpKind::kAttentionDelta, BindAttentionDelta},
    {OpKind::kMoveBlocks, BindMoveBlocks},
    {OpKind::kOrderRows, BindOrderRows},
    {OpKind::kSwigluForward, BindSwigluForward},
    {OpKind::kSwigluBackward, BindSwigluBackward},
    {OpKind::kActivate, BindActivate},
    {OpKind::kActivateBackward, BindActivateBackward},
    {OpKind::kSoftcap, BindSoftcap},
    {OpKind::kCrossEntropy, BindCrossEntropy},
    {OpKind::kCrossEntropyLoss, BindCrossEntropyLoss},
    {OpKind::kCrossEntropyStatistics, BindCrossEntropyStatistics},
    {OpKind::kCrossEntropyFinish, BindCrossEntropyFinish},
    {OpKind::kTakeHeads, BindTakeHeads},
    {OpKind::kAddHeads, BindAddHeads},
    {OpKind::kAdd, BindAdd},
    {OpKind::kCopy, BindCopy},
    {OpKind::kZero, BindZero},
    {OpKind::kScale, BindScale},
    {OpKind::kDequantise, BindDequantise},
    {OpKind::kDequantiseRows, BindDequantiseRows},
    {OpKind::kSumSquares, BindSumSquares},
    {OpKind::kFinishStep, BindFinishStep},
    {OpKind::kAdamW, BindAdamW},
    {OpKind::kAdamWFixUp, BindAdamWFixUp},
    {OpKind::kConvert, BindConvert},
    {OpKind::kMixedAdamW, BindMixedAdamW},
    {OpKind::kSgd, BindSgd},
};

Binder FindBinder(OpKind kind) {
  const auto* entry = std::find_if(std::begin(kTable), std::end(kTable),
                                   [kind](const TableEntry& entry) { return entry.kind == kind; });
  return entry == std::end(kTable) ? nullptr : entry->bind;
}

}  // namespace

absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                               const OpEnvironment& environment) {
  const Binder bind = FindBinder(op.kind);
  if (bind == nullptr) {
    return absl::UnimplementedError(absl::StrCat("no kernel for ", Name(op.kind)));
  }
  OpReader reader(op, operands, environment);
  BoundOp bound = bind(reader);
  RETURN_IF_ERROR(reader.status());
  return bound;
}

}  // namespace strata::worker
