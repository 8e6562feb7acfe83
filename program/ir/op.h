// Ops: what templates are made of. An op is a kernel with operands and attributes, or a collective,
// or a copy. The table below is the contract between model/ (which emits ops), the engine (which
// binds them to kernels) and the kernels. Tensors are row-major f32 unless stated. Legend: B batch,
// T sequence, N = B·T rows, C hidden, H query heads, K kv heads, D head size, F ffn, V vocab.
#ifndef STRATA_PROGRAM_IR_OP_H_
#define STRATA_PROGRAM_IR_OP_H_

#include <cstdint>
#include <vector>

#include "program/ir/operand.h"
#include "program/ir/types.h"

namespace strata::program {

enum class OpKind : uint8_t {
  // Host: performed by the trainer, which knows which samples are this rank's. Operands: tokens i32
  // [samples,T] write,
  // targets i32 [samples,T] write (target < 0: not trained on). ints: {samples, T}
  kLoadBatch,
  // Host. Operands: scalars, the host-written part, write.
  kLoadScalars,
  // Operands: a, b, c (write, or accumulate when ints[5]), workspace write (last; absent when 0
  // bytes).
  // c[m,n] (+)= op(a)[m,k] · op(b)[k,n]. ints: {m, n, k, trans_a, trans_b, accumulate, lda, ldb,
  // ldc}
  kMatMul,
  // tokens [N], table [V,C], y [N,C] write. ints: {N, V, C, group}. With a group (absent or 0:
  // none)
  // the table holds the V rows from (own index in the group) × V on; tokens outside give zeros.
  kEmbeddingForward,
  // tokens [N], dy [N,C], dtable [V,C] accumulate. ints: {N, V, C, group}: as forward; tokens
  // outside are passed over.
  kEmbeddingBackward,
  // x [N,C], w [C], y [N,C] write, rstd [N] write. ints: {N, C}; floats: {epsilon}
  kRmsNormForward,
  // x [N,C], branch [N,C], w [C], sum [N,C] write (= x + branch), y write, rstd write. ints: {N,
  // C}; floats: {epsilon}
  kAddRmsNormForward,
  // x [N,C], w [C], rstd [N] of the forward, y [N,C] write: the forward's y again, the same bits.
  // ints: {N, C}
  kRmsNormReplay,
  // dy, x, w, rstd, dx (write, or accumulate when ints[2]), dw accumulate, workspace write. ints:
  // {N, C, accumulate}
  kRmsNormBackward,
  // qkv [N,(H+2K)·D] accumulate (in place), table [context,D], scalars (kPosition; only when
  // ints[6]).
  // ints: {N, T, H, K, D, inverse, use_position}. Row n has position (use_position ? kPosition : 0)
  // + n % T.
  kRope,
  // qkv [N,(H+2K)·D], out [N,H·D] write, lse [B,H,T] write, workspace write. ints: {B, T, H, K, D}
  kAttentionForward,
  // dout, qkv, out, lse, dqkv [N,(H+2K)·D] write, workspace write. ints: {B, T, H, K, D}
  kAttentionBackward,
  // qkv [N,(H+2K)·D] of a chunk (B = 1, N = T rows), k_cache and v_cache [context,K·D] accumulate,
  // scalars (kPosition,
  // kValidTokens), out [N,H·D] write, workspace write. Appends the chunk's keys and values at
  // kPosition, then attends
  // to [0, kPosition + row]. ints: {T, context, H, K, D}
  kAttentionDecode,
  // gate_up [N,2F] (gate columns, then up), h [N,F] write. ints: {N, F}
  kSwigluForward,
  // dh [N,F], gate_up [N,2F], dgate_up [N,2F] write. ints: {N, F}
  kSwigluBackward,
  // logits [N,V] accumulate: become their gradient (softmax − one-hot) × kInverseTokens; targets
  // [N]; scalars; loss f64
  // accumulate (sum over rows, nats); workspace write. ints: {N, V}
  kCrossEntropy,
  // logits [N,V] read, targets [N], loss f64 accumulate, workspace write. ints: {N, V}
  kCrossEntropyLoss,
  // The same with the vocabulary cut over a group, V columns each, own index in it × V the first.
  // logits [N,V] read, targets [N], statistics [N,3] write: the maximum, Σ exp(logit − maximum),
  // the
  // target's logit (0 where another part has it). ints: {N, V, group}
  kCrossEntropyStatistics,
  // logits [N,V] accumulate: become their gradient, targets [N], statistics [parts,N,3] of all
  // parts, scalars, loss f64 accumulate (whole, the same on each rank). ints: {N, V, group, parts}
  kCrossEntropyFinish,
  // dst accumulate, src. ints: {elements}. dst += src
  kAdd,
  // dst write, src. ints: {bytes}
  kCopy,
  // dst write. ints: {bytes}
  kZero,
  // x [count], out f64 write: Σ x². ints: {count}
  kSumSquares,
  // Last word of a step: leaves f64 [V virtual shards, 1 + sets] (each row: the shard's loss sum,
  // then Σ gradient² of its
  // range of each set), scalars (kInverseTokens) read, scalars results write. Sums each column in
  // the fixed tree, the
  // sets' norms left to right; then kLoss = Σ · kInverseTokens, kGradientNorm, kClipFactor = min(1,
  // clip / (norm + 1e-6))
  // (1 when clip is 0), kClipped, kApply = loss and norm are finite. ints: {V, sets}; floats:
  // {clip}. With 0
  // sets only kLoss.
  kFinishStep,
  // Operands: param, m, v (read), gradient (read), scalars (kLearningRate, kApplied, kClipFactor),
  // then param, m, v (write;
  // possibly the same bytes). All six cover one contiguous range of the set's flat layout: `count`
  // elements from
  // (index in the operands' shard group) × count. ints: {count, then pairs (begin, end) of flat
  // ranges that decay};
  // floats: {beta1, beta2, epsilon, weight_decay}. The update's number for bias correction is
  // kApplied + 1.
  kAdamW,
  // What a speculative update becomes when the norm clips: param, m, v of version s, m of version
  // s+1, scalars (as kAdamW); then param, m, v of version s+1, made again with the clipped gradient
  // (possibly the bytes of version s's operands). The gradient is taken from the first moments, so
  // the result is within rounding of a deferred update, not equal to it: kernels/adamw.h.
  // Attributes: those of the kAdamW that made version s+1.
  kAdamWFixUp,
  // Collective or copy inside a template: `communication` says which. Operands: in, out, scratch.
  kCollective,
};
inline constexpr int kOpKindCount = 27;
const char* Name(OpKind);

// What a collective, send or receive needs beside operands. Operand order: collectives: in, out,
// scratch (where the backend needs it); send: in; receive: out. `bytes` is the payload per member:
// all-gather and reduce-scatter: one member's part; all-reduce and broadcast: the whole.
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
  std::vector<Operand> operands;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  Communication communication;  // kCollective only
  Stream stream = Stream::kCaller;
  std::vector<int> dependencies;
  double flops = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_OP_H_
