// Ops: what templates are made of. An op is a kernel with operands and attributes, or a collective,
// or a copy. What each kind computes, its operands, sizes, attributes and costs stand in
// ops/<op>.h, for people in docs/ops.md; this file is their common shape.
#ifndef STRATA_PROGRAM_IR_OP_H_
#define STRATA_PROGRAM_IR_OP_H_

#include <cstdint>
#include <vector>

#include "program/ir/operand.h"
#include "program/ir/types.h"

namespace strata::program {

// ops/table.h has a row for each.
enum class OpKind : uint8_t {
  kLoadBatch,    // host
  kLoadScalars,  // host
  kMatMul,
  kEmbeddingForward,
  kEmbeddingBackward,
  kRmsNormForward,
  kAddRmsNormForward,
  kRmsNormReplay,
  kRmsNormBackward,
  kLayerNormForward,
  kAddLayerNormForward,
  kLayerNormReplay,
  kLayerNormBackward,
  kHeadNormForward,
  kHeadNormReplay,
  kHeadNormBackward,
  kAddBias,
  kBiasGradient,
  kAddPositions,
  kPositionsGradient,
  kRope,
  kAttentionForward,
  kAttentionBackward,
  kAttentionDecode,
  kAttentionPart,
  kAttentionPartBackward,
  kAttentionDelta,
  kMoveBlocks,
  kOrderRows,
  kSwigluForward,
  kSwigluBackward,
  kActivate,
  kActivateBackward,
  kCrossEntropy,
  kCrossEntropyLoss,
  kCrossEntropyStatistics,
  kCrossEntropyFinish,
  kTakeHeads,
  kAddHeads,
  kAdd,
  kCopy,
  kZero,
  kScale,
  kDequantise,
  kDequantiseRows,
  kSoftcap,
  kSumSquares,
  kFinishStep,
  kAdamW,
  kAdamWFixUp,
  kConvert,
  kMixedAdamW,
  kSgd,
  kCollective,  // collective or copy inside a template: `communication` says which
};
inline constexpr int kOpKindCount = 54;
const char* Name(OpKind);

// What a collective, send or receive needs beside operands. Operand order: collectives: in, out,
// scratch (where the backend needs it); send: in; receive: out. `bytes` is the payload per member:
// all-gather, reduce-scatter and all-to-all: one member's part; all-reduce, broadcast and rotate:
// the whole.
struct Communication {
  CollectiveOp op = CollectiveOp::kBarrier;
  Group group = Group::kNone;
  DType dtype = DType::kF32;
  int64_t bytes = 0;
  int peer_offset =
      0;  // send, receive: the peer's index in the group is (own index + peer_offset) mod size
  int channel = 0;  // send, receive: messages match in order per (sender, receiver, channel)
  int root = 0;     // broadcast
};

// One op of a template. Stream kCaller unless it must run beside the caller's stream; dependencies
// name earlier ops of the template on other streams (same-stream order is implied).
struct Op {
  OpKind kind = OpKind::kZero;
  std::vector<Operand> operands;  // in the order of ops/, then a workspace
  std::vector<int64_t> ints;      // attributes; written and read by ops::ToOp and ops::FromOp
  std::vector<double> floats;
  Communication communication;  // kCollective only
  Stream stream = Stream::kCaller;
  std::vector<int> dependencies;
  double flops = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_OP_H_
