// What every rank of a job holds, by tier and class of bytes: read off the very programs that its
// trainers would run.
#ifndef STRATA_PLANNER_FIT_MEMORY_OF_JOB_H_
#define STRATA_PLANNER_FIT_MEMORY_OF_JOB_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/fit/devices.h"
#include "planner/fit/presets.h"
#include "program/ir/mesh.h"
#include "program/ir/types.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

enum class ByteClass : uint8_t {
  kParameters,
  kGradients,
  kMaster,         // weights in more bits than kernels read
  kOptimizer,      // the rest of the optimizer's state
  kActivations,    // kept for the backward pass, or passed between layers
  kLogits,         // of the rows that exist at once
  kCommunication,  // what collectives and messages land in
  kWorkspace,      // values alive inside one layer's pass, and what kernels work in
  kStaging,        // slabs and windows between tiers
  kCache,          // keys and values of decoding
  kTables,         // rotary tables, the batch, scalars, losses
  kRounding,       // alignment, holes between lifetimes, whole pages
  kOverhead,       // the process itself: see overhead_items
};
inline constexpr int kByteClassCount = 13;
const char* Name(ByteClass);  // "master"

struct TierBytes {
  std::array<int64_t, kByteClassCount> bytes{};
  int64_t arena_bytes = 0;  // all of them but kOverhead

  int64_t& of(ByteClass c) { return bytes[static_cast<size_t>(c)]; }
  int64_t of(ByteClass c) const { return bytes[static_cast<size_t>(c)]; }
  int64_t total() const { return arena_bytes + of(ByteClass::kOverhead); }
};

// Every rank of a pipeline stage holds the same.
struct StageMemory {
  std::array<TierBytes, program::kTierCount> tiers;
  std::string peak;  // where the compute tier is fullest: "train, backward layers.31 micro 0"
  // On the compute tier, at whatever instruction they are largest.
  int64_t largest_activations = 0, largest_logits = 0;

  TierBytes& tier(program::Tier t) { return tiers[static_cast<size_t>(t)]; }
  const TierBytes& tier(program::Tier t) const { return tiers[static_cast<size_t>(t)]; }
};

struct FitRequest {
  FitModel model;
  v1::JobSpec job;  // complete: defaults have been filled in, degrees are numbers
  // No training: weights and a cache of train.sequence tokens for train.micro_batch sequences.
  bool inference = false;
  program::DType weights = program::DType::kF32;  // of inference: also kInt8, kNf4
  std::string weights_name = "f32";               // for people: fp8 has kInt8's bytes
  FitDevice device;
  bool device_limit_given = true;  // memory.device is the user's: false: see CompleteRequest
  bool batch_given = true;  // train.global_batch is the user's; false: one pass a rank and stage
  int64_t threads = 1;      // of a rank's pool
  int64_t evaluate_sequences = 0;  // of validation data
  // Where the compute device is the machine itself: bytes of all ranks together; 0: not known.
  int64_t machine_bytes = 0;
};

struct MemoryOfJob {
  bool from_program = true;  // false: closed forms, for what the engine cannot run yet
  std::string basis;         // what the numbers follow from, and why
  program::Mesh mesh;
  program::Tier compute_tier = program::Tier::kHost;
  std::vector<StageMemory> stages;
  std::vector<OverheadItem> overhead_items;  // of the compute tier
  double parameters = 0;
  // Of one layer, micro-batch and rank: scores and probabilities that attention without flash
  // would keep (heads · sequence² numbers each); 0: nothing attends.
  double score_bytes = 0;

  const StageMemory& of_rank(int rank) const {
    return stages[static_cast<size_t>(mesh.stage(rank))];
  }
  // The first rank whose compute tier holds most.
  int worst_rank() const;
};

// Whether a library computes attention of its trainings, where a device's trainers choose one
// (worker/trainer/attention_choice.h): in 16 bits, of whole sequences whose rows see all before
// them, in some layer at least. docs/gpu.md says what cuDNN takes.
bool LibraryMayAttend(const FitRequest& request);
// What the runtime takes of a rank's device, beside an arena of so many bytes.
std::vector<OverheadItem> OverheadOfRank(const FitRequest& request,
                                         const program::GroupSizes& sizes, int64_t arena_bytes);
// InvalidArgument: a model or plan that cannot be.
absl::StatusOr<MemoryOfJob> ReadMemoryOfJob(const FitRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_MEMORY_OF_JOB_H_
