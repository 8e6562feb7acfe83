// The small vocabulary of step programs: tiers, streams, groups, access, purposes.
#ifndef STRATA_PROGRAM_IR_TYPES_H_
#define STRATA_PROGRAM_IR_TYPES_H_

#include <cstdint>

namespace strata::program {

// Where bytes live. On a CPU device the compute memory *is* host memory: such programs use kHost
// only.
enum class Tier : uint8_t { kDevice, kHost, kSsd };
inline constexpr int kTierCount = 3;

// In-order queues of a rank. Instructions of one stream start and end in list order; different
// streams are ordered by dependencies only. kCaller appears in templates alone: the stream of the
// instruction that calls.
enum class Stream : uint8_t {
  kCompute,     // kernels
  kParameters,  // parameter gathers, before use
  kGradients,   // gradient reductions, after production
  kTensor,      // collectives inside a block (tensor, sequence and context parallelism)
  kSend,        // pipeline sends
  kReceive,     // pipeline receives
  kFetch,       // host-to-device copies
  kEvict,       // device-to-host copies
  kHost,        // kernels on the host: updates where the state lives
  kSsdRead,
  kSsdWrite,
  kCaller,
};
inline constexpr int kStreamCount = 11;

// Symbolic groups of ranks; which ranks they are is resolved when ranks join.
enum class Group : uint8_t {
  kNone,
  kWorld,
  kData,  // ranks with the same tensor, context and pipeline coordinates
  kTensor,
  kContext,
  kPipeline,   // a pipeline's stages, in order
  kEmbedding,  // the stages that hold a tied embedding
};
inline constexpr int kGroupCount = 7;

enum class Access : uint8_t {
  kRead,
  kWrite,
  kAccumulate
};  // accumulate: reads and writes the same bytes

enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kBytes };
constexpr int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kBytes:
      return 1;
  }
  return 1;
}

// The five mechanisms; every purpose is one of them with other operands. Send and receive are two
// ends of one.
enum class Mechanism : uint8_t { kCall, kCollective, kSend, kReceive, kTransfer, kSignal };

enum class CollectiveOp : uint8_t { kAllGather, kReduceScatter, kAllReduce, kBroadcast, kBarrier };

// Labels for people, metrics and the timeline; no reader's rules depend on them.
enum class Purpose : uint8_t {
  kLoad,  // batch and scalars
  kForward,
  kBackward,  // input and weight gradients together
  kBackwardInput,
  kBackwardWeight,
  kRecompute,
  kGather,   // parameters
  kReduce,   // gradients, losses, norms
  kCombine,  // partial sums of virtual shards
  kNorm,
  kUpdate,
  kFixUp,     // undoing or correcting a speculative update
  kPipeline,  // activations and their gradients between stages
  kFetch,
  kStash,
  kSnapshot,  // for checkpoints
  kReport,    // metrics
};
inline constexpr int kPurposeCount = 17;

// What a slot's bytes are, for the memory report.
enum class SlotClass : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kWorkspace,
  kCommunication,
  kBatch,
  kScalars,
  kConstants,
  kCache,
  kStaging,
};
inline constexpr int kSlotClassCount = 11;

const char* Name(Tier);
const char* Name(Stream);
const char* Name(Group);
const char* Name(Access);
const char* Name(DType);
const char* Name(Mechanism);
const char* Name(CollectiveOp);
const char* Name(Purpose);
const char* Name(SlotClass);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_TYPES_H_
