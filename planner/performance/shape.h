// What is trained and how it is cut: the inputs of the closed-form performance model.
#ifndef STRATA_PLANNER_PERFORMANCE_SHAPE_H_
#define STRATA_PLANNER_PERFORMANCE_SHAPE_H_

#include <cstdint>
#include <string>

#include "planner/performance/saved_values.h"

namespace strata::planner {

// Sizes of a decoder. Experts stand in every layer, if in any.
struct TrainingShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // at most heads
  int64_t head_dim = 0;
  int64_t ffn = 0;     // of the dense block; unused with experts
  bool gated = false;  // SwiGLU: a second input product
  int64_t vocab = 0;
  int64_t sequence_length = 0;
  bool tied = false;    // the head is the embedding
  int64_t experts = 0;  // 0: dense
  int64_t experts_per_token = 0;
  int64_t expert_ffn = 0;
};

// What the matrix products of the blocks run in. Attention, norms and the head stay in 16 bits, but
// with kFp32.
enum class Precision { kFp32, kHalf, kFp8, kMxfp8, kNvfp4 };  // kHalf: bf16 or fp16
inline constexpr int kPrecisions = 5;
// "fp32", "bf16", "fp8", "mxfp8", "nvfp4".
const char* NameOf(Precision precision);

enum class Sharding { kReplicated, kZero1, kZero2, kZero3 };
// kSelective: core attention; kOperators: all but every other product and attention (torchtitan's
// default); kFull: all but the layer's input; kListed: all but a list of values (Strata's own).
enum class Recompute { kNone, kSelective, kOperators, kFull, kListed };
// What a block of software that saves by value keeps. Not of kOperators, which it does not know.
SavedValues SavedBy(Recompute recompute, SavedValues listed);
// The mode that says so in all layers; kListed: none does.
Recompute ModeOf(SavedValues saved);
// Classes of bytes on the host, as bits; kAll: the first two. Gradients are there beside the
// optimizer's state only, parameters beside both: layers are streamed, two at a time.
enum class Offload {
  kNone = 0,
  kOptimizer = 1,
  kActivations = 2,
  kAll = 3,
  kGradients = 4 + kOptimizer,
  kParameters = 8 + kGradients,
};
constexpr bool Has(Offload all, Offload some) {
  return (static_cast<int>(all) & static_cast<int>(some)) == static_cast<int>(some);
}
constexpr Offload operator|(Offload a, Offload b) {
  return static_cast<Offload>(static_cast<int>(a) | static_cast<int>(b));
}

struct LayoutChoice {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t chunks = 1;  // virtual pipeline stages per rank
  int64_t context = 1;
  int64_t expert = 1;
  int64_t data = 1;
  // Hybrid sharding (arXiv:2304.11277, section 3.2.2): so many groups of data ranks, each with a
  // whole set of shards. 1 where nothing is shared; divides data.
  int64_t replicas = 1;
  Sharding sharding = Sharding::kZero1;
  bool sequence_parallel = false;
  int64_t micro_batch = 1;   // sequences
  int64_t global_batch = 1;  // sequences; data · micro_batch divides it
  Recompute recompute = Recompute::kNone;
  // With kListed: what so many layers keep; the others keep what they do with kNone. 0: all layers.
  SavedValues saved = {};
  int64_t listed_layers = 0;
  Precision precision = Precision::kHalf;
  Offload offload = Offload::kNone;
  // Moved per parameter by an update and the norm before it: by AdamW on 32-bit states gradient,
  // master and two moments read, three written, the parameter written, the gradient once more.
  double update_bytes = 34;
  // States that are offloaded are in unified memory, updated by the device; or on disks.
  bool unified = false, disk = false;

  bool context_shares = true;  // those of context share shards, too
  // The part of the layers that keep what is listed.
  double listed_share(int64_t layers) const {
    return listed_layers == 0 ? 1
                              : static_cast<double>(listed_layers) / static_cast<double>(layers);
  }
  // Ranks that share one set of shards.
  int64_t sharing() const { return data / replicas * (context_shares ? context : 1); }
  int64_t devices() const { return tensor * pipeline * context * data; }
  int64_t micro_batches() const { return global_batch / (data * micro_batch); }
};

// Of one training token, forward and backward, without recompute: the products of the blocks and
// the head, and attention over the whole sequence, or over its causal half.
double FlopsPerToken(const TrainingShape& shape, bool causal);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_SHAPE_H_
