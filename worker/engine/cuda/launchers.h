// Binders of ops to launches on CUDA streams, in binding/ by the files of ops/: as those of
// op_reader.h, but what is returned queues the op and comes back at once.
#ifndef STRATA_WORKER_ENGINE_CUDA_LAUNCHERS_H_
#define STRATA_WORKER_ENGINE_CUDA_LAUNCHERS_H_

#include "worker/engine/cuda/launching.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

using Launcher = BoundOp (*)(OpReader& reader, const Launching& at);

BoundOp LaunchAdd(OpReader& reader, const Launching& at);
BoundOp LaunchCopy(OpReader& reader, const Launching& at);
BoundOp LaunchZero(OpReader& reader, const Launching& at);
BoundOp LaunchScale(OpReader& reader, const Launching& at);
BoundOp LaunchSoftcap(OpReader& reader, const Launching& at);
BoundOp LaunchSumSquares(OpReader& reader, const Launching& at);
BoundOp LaunchFinishStep(OpReader& reader, const Launching& at);
BoundOp LaunchEmbeddingForward(OpReader& reader, const Launching& at);
BoundOp LaunchEmbeddingBackward(OpReader& reader, const Launching& at);
BoundOp LaunchRmsNormForward(OpReader& reader, const Launching& at);
BoundOp LaunchAddRmsNormForward(OpReader& reader, const Launching& at);
BoundOp LaunchRmsNormReplay(OpReader& reader, const Launching& at);
BoundOp LaunchRmsNormBackward(OpReader& reader, const Launching& at);
BoundOp LaunchLayerNormForward(OpReader& reader, const Launching& at);
BoundOp LaunchAddLayerNormForward(OpReader& reader, const Launching& at);
BoundOp LaunchLayerNormReplay(OpReader& reader, const Launching& at);
BoundOp LaunchLayerNormBackward(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionForward(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionBackward(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionDecode(OpReader& reader, const Launching& at);
BoundOp LaunchMatMul(OpReader& reader, const Launching& at);
BoundOp LaunchActivate(OpReader& reader, const Launching& at);
BoundOp LaunchActivateBackward(OpReader& reader, const Launching& at);
BoundOp LaunchHeadNormForward(OpReader& reader, const Launching& at);
BoundOp LaunchHeadNormReplay(OpReader& reader, const Launching& at);
BoundOp LaunchHeadNormBackward(OpReader& reader, const Launching& at);
BoundOp LaunchAddPositions(OpReader& reader, const Launching& at);
BoundOp LaunchPositionsGradient(OpReader& reader, const Launching& at);
BoundOp LaunchMoveBlocks(OpReader& reader, const Launching& at);
BoundOp LaunchOrderRows(OpReader& reader, const Launching& at);
BoundOp LaunchTakeHeads(OpReader& reader, const Launching& at);
BoundOp LaunchAddHeads(OpReader& reader, const Launching& at);
BoundOp LaunchCrossEntropyFinish(OpReader& reader, const Launching& at);
BoundOp LaunchCrossEntropyStatistics(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionDelta(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionPart(OpReader& reader, const Launching& at);
BoundOp LaunchAttentionPartBackward(OpReader& reader, const Launching& at);
BoundOp LaunchDequantise(OpReader& reader, const Launching& at);
BoundOp LaunchDequantiseRows(OpReader& reader, const Launching& at);
BoundOp LaunchRope(OpReader& reader, const Launching& at);
BoundOp LaunchAddBias(OpReader& reader, const Launching& at);
BoundOp LaunchBiasGradient(OpReader& reader, const Launching& at);
BoundOp LaunchCrossEntropy(OpReader& reader, const Launching& at);
BoundOp LaunchCrossEntropyLoss(OpReader& reader, const Launching& at);
BoundOp LaunchSwigluForward(OpReader& reader, const Launching& at);
BoundOp LaunchSwigluBackward(OpReader& reader, const Launching& at);

// A product and the bias of its result's columns. Null: they are not that, or the library has no
// such product.
BoundOp LaunchMatMulWithBias(OpReader& product, OpReader& bias, const Launching& at);

BoundOp LaunchConvert(OpReader& reader, const Launching& at);
BoundOp LaunchAdamW(OpReader& reader, const Launching& at);
BoundOp LaunchAdamWFixUp(OpReader& reader, const Launching& at);
BoundOp LaunchMixedAdamW(OpReader& reader, const Launching& at);
BoundOp LaunchSgd(OpReader& reader, const Launching& at);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_LAUNCHERS_H_
