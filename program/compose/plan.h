// A parallel plan: everything about a job's layout that its programs depend on, as numbers.
#ifndef STRATA_PROGRAM_COMPOSE_PLAN_H_
#define STRATA_PROGRAM_COMPOSE_PLAN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "program/compose/assembler.h"
#include "program/compose/schedule.h"
#include "program/ir/layer_graph.h"
#include "program/ir/optimizer_state.h"

namespace strata::program {

// What a shard group's ranks hold a part of each (Rajbhandari et al., "ZeRO", SC 2020): nothing;
// optimizer state; gradients too; parameters too.
enum class ShardLevel : uint8_t { kNone, kOptimizer, kGradients, kParameters };

// Whether a micro-batch passes all layers before the next begins, or all of them a layer before the
// next layer.
enum class MicroOrder : uint8_t { kDepthFirst, kLayerFirst };

// Where parameters, optimizer state and whole gradients live: where kernels compute; in host
// memory, from which layers are streamed; or on SSD, behind a pool of pinned host slabs
// (Rajbhandari et al., "ZeRO-Infinity", SC 2021). Beyond the device they are present for their uses
// only, and updates run on the host.
// With a tree of sums the bits do not depend on the home; without one, what is summed left to right
// is a micro-batch's gradient at a time (as in kGradients), not into one accumulator of kernels.
enum class Home : uint8_t { kDevice, kHost, kSsd };

// When and how state is updated.
//  - deferred: in memory, when the norm is known.
//  - spooled: gradients wait on SSD until the norm is known; then each set's gradient and state are
//    read, updated, written.
//  - speculative: a set's state is read, updated and written as its next version as soon as its
//    gradient is whole, as if nothing clipped. When the norm turns out to clip, the next version is
//    made again from both (the gradient follows from the two first moments: g = (m' - b1 m) / (1 -
//    b1)); when it is not finite, the next version never counts.
enum class UpdatePolicy : uint8_t { kDeferred, kSpooled, kSpeculative };

// The gradient that an update waits with, and the parts of the state: slabs held at once.
inline constexpr int kLeastSlabs = 5;

struct Plan {
  // groups.shard: ranks that share one copy of what `shard` cuts; 1 with kNone.
  GroupSizes groups;
  ShardLevel shard = ShardLevel::kNone;
  int64_t virtual_shards = 1;  // V, leaves of the tree of sums; 0: off, see Leaves
  int64_t global_batch = 0;    // sequences per step, of all ranks
  int64_t evaluate_batch = 0;  // sequences per evaluation; 0: no evaluate program
  MicroOrder micro_order = MicroOrder::kDepthFirst;
  ScheduleKind schedule = ScheduleKind::k1F1B;  // of a pipeline of two stages or more
  int virtual_stages = 1;                       // chunks per stage
  PassDurations durations;                      // of one virtual stage; the schedule's unit
  int in_flight = 0;                            // see ScheduleOptions
  // Per layer its virtual stage, ascending, each at least once. Empty: BalancedVirtualStages.
  std::vector<int> stage_of_layer;
  // Parameters that are sharded, or at home beyond the device: bytes that may be present beyond
  // what one use needs; negative: in all what the most demanding three uses in a row need.
  int64_t prefetch_bytes = -1;
  Home home = Home::kDevice;                      // others: with one rank of data, or all of data
                                                  // sharing everything (kParameters)
  UpdatePolicy update = UpdatePolicy::kDeferred;  // kSsd: spooled or speculative, else deferred
  int slabs = 8;                                  // kSsd: each as large as the largest set
  double gradient_clip = 0;                       // 0: off
  // Of gradients when leaves have ended: as they are summed over micro-batches and ranks, and as
  // updates read them. f32 or bf16.
  DType gradient = DType::kF32;
  // Of trainable sets whose weights have 16 bits: kF32, or, for bf16, kRemainder.
  StateFormat master = StateFormat::kF32;
  std::vector<StateSpec> moments = {{"adam.m", "first moment"}, {"adam.v", "second moment"}};
  // The loss's gradient is multiplied by kLossScale; norm and updates take it out again.
  bool loss_scaling = false;
  Tier tier = Tier::kHost;  // where kernels compute
  ScratchBytes scratch;     // of the collective backend; required with more than one rank

  bool beyond_device() const { return home != Home::kDevice; }
  // Kernels may compute on another tier than the host: what both work on then moves.
  bool on_device() const { return tier == Tier::kDevice; }
  // Of what the process around the step gives and reads.
  Stream host_stream() const { return on_device() ? Stream::kHost : Stream::kCompute; }
  // Of sums, norms and updates of what is at home.
  Stream home_stream() const { return beyond_device() ? Stream::kHost : Stream::kCompute; }
  // Where those work: slabs stand in for the SSD.
  Tier home_memory() const { return beyond_device() ? Tier::kHost : tier; }

  // With one replica the shard group is the data group, and is called so.
  Group shard_group() const { return groups.shard == groups.data ? Group::kData : Group::kShard; }
};

// What is kept of a set beside its weights: the master where these have fewer bits, then the
// moments. None of a frozen set.
std::vector<StateSpec> StatesOf(const Plan& plan, const ParameterSet& set);

// How a step's sums are cut. The global batch is `count` leaves of equal size, which are paired
// bottom-up (2i with 2i+1) whoever computes them; a rank computes per_rank() of them. Which ones
// follows from what is reduced first: the ranks of a shard group, if they reduce leaf by leaf, hold
// neighbouring leaves at any time, so that a reduction over the group sums an aligned block.
// Without a tree (virtual_shards off) a leaf is a micro-batch, and a rank's are added left to
// right.
struct Leaves {
  int64_t count = 1;
  int data = 1;      // ranks
  int together = 1;  // s: ranks that reduce leaf by leaf
  bool tree = true;

  int64_t per_rank() const { return count / data; }
  // The leaf that the rank at `data_index` computes as its `local`-th.
  int64_t Of(int64_t data_index, int64_t local) const {
    return data_index / together * per_rank() * together + local * together + data_index % together;
  }
  // The row of losses that the rank writes as its `local`-th.
  int64_t RowOf(int64_t data_index, int64_t local) const {
    return tree ? Of(data_index, local) : data_index;
  }
  // Rows of the table of losses, and equal ranges of the sets whose squares are summed.
  int64_t rows() const { return tree ? count : data; }
  int64_t rows_per_rank() const { return rows() / data; }
};
Leaves LeavesOf(const Plan& plan, int64_t micro_batch);

// Which validation sequences row v of the losses sums: [v · sequences, (v + 1) · sequences) of
// those asked for, in `padded` rows of whole micro-batches; what is beyond is masked.
struct EvaluateShape {
  int64_t sequences = 0;
  int64_t padded = 0;
};
EvaluateShape ShapeOfEvaluation(const Plan& plan, int64_t micro_batch);

// The update of one set over `count` elements (the whole flat layout, or one rank's range): formals
// kParameters (0 in, 1 out by version; without 0 the states tell all), kState (those of StatesOf),
// kGradients (of Plan::gradient), kScalars.
using UpdateEmitter = std::function<Template(const ParameterSet& set, int64_t count)>;

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_PLAN_H_
