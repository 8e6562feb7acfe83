// The small vocabulary of step programs: tiers, streams, groups, access, purposes.
#ifndef STRATA_PROGRAM_IR_TYPES_H_
#define STRATA_PROGRAM_IR_TYPES_H_

#include <compare>
#include <cstdint>
#include <string>

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
  kHost,        // what the process around the step gives and reads
  kSsdRead,
  kSsdWrite,
  // Of updates, so that they may go on under the next step: nothing of its passes stands behind
  // them in an order that only a stream has.
  kUpdate,       // kernels on the host: updates where the state lives
  kUpdateFetch,  // host-to-device copies
  kUpdateEvict,  // device-to-host copies
  kUpdateRead,   // from SSD
  kUpdateWrite,  // to SSD
  kCaller,
};
inline constexpr int kStreamCount = 16;

// The axes of a job's mesh of ranks, slowest first in the order of a group's members. The data
// degree is replica x shard: a shard group's ranks hold one copy of what is sharded, replicas hold
// the same shard (hybrid sharding).
enum class Axis : uint8_t { kReplica, kShard, kStage, kContext, kExpert, kTensor };
inline constexpr int kAxisCount = 6;
const char* Name(Axis);

using Axes = uint8_t;  // bit a for Axis a
constexpr Axes Bit(Axis axis) { return static_cast<Axes>(1u << static_cast<int>(axis)); }

// Symbolic groups of ranks: those that differ in some coordinates only. Which ranks they are is
// resolved when ranks join.
struct Group {
  Axes axes = 0;            // in which members differ
  bool stage_ends = false;  // along kStage only the first and the last

  static const Group kNone;
  static const Group kWorld;
  static const Group kData;  // ranks with the same tensor, context and pipeline coordinates
  static const Group kReplica;
  static const Group kShard;
  static const Group kTensor;
  static const Group kContext;
  static const Group kPipeline;   // a pipeline's stages, in order
  static const Group kEmbedding;  // the stages that hold a tied embedding

  auto operator<=>(const Group&) const = default;  // NOLINT(modernize-use-nullptr): of clang 14
  // As an op's attribute.
  constexpr int64_t ToInt() const { return axes | (stage_ends ? 0x80 : 0); }
  static constexpr Group FromInt(int64_t value) {
    return {static_cast<Axes>(value & 0x7f), (value & 0x80) != 0};
  }
};
inline constexpr Group Group::kNone{};
inline constexpr Group Group::kWorld{(1u << kAxisCount) - 1};
inline constexpr Group Group::kData{Bit(Axis::kReplica) | Bit(Axis::kShard)};
inline constexpr Group Group::kReplica{Bit(Axis::kReplica)};
inline constexpr Group Group::kShard{Bit(Axis::kShard)};
inline constexpr Group Group::kTensor{Bit(Axis::kTensor)};
inline constexpr Group Group::kContext{Bit(Axis::kContext)};
inline constexpr Group Group::kPipeline{Bit(Axis::kStage)};
inline constexpr Group Group::kEmbedding{Bit(Axis::kStage), true};

// Groups that programs communicate in, in the order in which every rank makes them.
inline constexpr Group kGroups[] = {Group::kWorld,    Group::kData,     Group::kReplica,
                                    Group::kShard,    Group::kTensor,   Group::kContext,
                                    Group::kPipeline, Group::kEmbedding};

enum class Access : uint8_t {
  kRead,
  kWrite,
  kAccumulate
};  // accumulate: reads and writes the same bytes

// kNf4: units of weights with their scales in 8 bits (kernels/nf4.h); kNf4F32: with scales in f32.
// kInt8: without its scales (IsRowScales in parameter_set.h).
enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kBytes, kF16, kInt8, kNf4, kNf4F32 };
// In bytes; of types of whole bytes.
constexpr int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kBytes:
    case DType::kInt8:
    case DType::kNf4:
    case DType::kNf4F32:
      return 1;
  }
  return 1;
}
// Weights in NF4 come in units that are decoded by themselves.
inline constexpr int64_t kNf4Unit = 16384;
inline constexpr int64_t kNf4UnitBytes = 8512;
inline constexpr int64_t kNf4F32UnitBytes = 9216;
constexpr bool IsNf4(DType type) { return type == DType::kNf4 || type == DType::kNf4F32; }
// Whether weights of it are dequantised before kernels read them.
constexpr bool IsQuantised(DType type) { return IsNf4(type) || type == DType::kInt8; }
// Of `elements`; of NF4, whole units.
constexpr int64_t BytesOf(DType type, int64_t elements) {
  if (!IsNf4(type)) return elements * SizeOf(type);
  const int64_t units = (elements + kNf4Unit - 1) / kNf4Unit;
  return units * (type == DType::kNf4 ? kNf4UnitBytes : kNf4F32UnitBytes);
}

// The five mechanisms; every purpose is one of them with other operands. Send and receive are two
// ends of one.
enum class Mechanism : uint8_t { kCall, kCollective, kSend, kReceive, kTransfer, kSignal };

enum class CollectiveOp : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kAllToAll,  // part j goes to member j
  kRotate,    // to the next member, from the one before
};

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
std::string Name(Group);  // "data"; axes joined by + where a group has no name of its own
const char* Name(Access);
const char* Name(DType);
const char* Name(Mechanism);
const char* Name(CollectiveOp);
const char* Name(Purpose);
const char* Name(SlotClass);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_TYPES_H_
