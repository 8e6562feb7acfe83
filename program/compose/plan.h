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

// Where one parameter set's bytes of a class live, or what a layer's forward keeps for its
// backward: where kernels compute; in unified memory, whose pages come to the device and go
// (program/ir/unified.h); in host memory; or on SSD, behind a pool of host slabs (Rajbhandari et
// al., "ZeRO-Infinity", SC 2021). Beyond the device they are present for their uses only. No bit
// depends on it.
enum class Home : uint8_t { kDevice, kUnified, kHost, kSsd };

// Which part of a class of bytes has its home in host memory, on SSD, and in unified memory; the
// device keeps the rest.
// Sets (of activations: layers) are kept whole: as many as do not exceed the device's part stay
// there, spread evenly.
struct Place {
  double host = 0, ssd = 0, unified = 0;

  bool beyond_device() const { return host + ssd + unified > 0; }
  bool operator==(const Place&) const = default;
};

struct Places {
  Place parameters;
  Place gradients;  // what waits: partial sums, and whole ones for the update
  // Updates run where a set's state lives: on the device (also of unified memory), or on the host.
  Place optimizer;
  Place activations;  // what forwards keep for backwards

  bool beyond_device() const {
    return parameters.beyond_device() || gradients.beyond_device() || optimizer.beyond_device() ||
           activations.beyond_device();
  }
  bool uses_ssd() const {
    return parameters.ssd + gradients.ssd + optimizer.ssd + activations.ssd > 0;
  }
  bool uses_unified() const {
    return parameters.unified + gradients.unified + optimizer.unified + activations.unified > 0;
  }
  bool operator==(const Places&) const = default;
};

// Per unit its home: the place's parts of all bytes, see Place.
std::vector<Home> HomesOf(const Place& place, const std::vector<int64_t>& bytes);

// Of parameters whose home is beyond the device: how many layers are on it at once (k), and how
// many that have ended make room together for as many others (k'), 1 ≤ k' ≤ k; a layer's bytes are
// those of the largest between the first and the last, beside which there is room for one of these
// two: a tied table, needed at both ends, stays. (Superpipeline, arXiv:2410.08791.)
struct Streaming {
  static constexpr int kAllButOne = -1;
  static constexpr int kOneUse = -2;  // no more than the most demanding use needs

  int resident = 0;  // 0: as Plan::prefetch_bytes says, or as Plan::device_limit allows
  int moved = 1;

  bool operator==(const Streaming&) const = default;
};

// When and how state is updated.
//  - deferred: when the norm is known.
//  - spooled: the same, of gradients that wait beyond the device.
//  - speculative: a set's state is updated as its next version as soon as its gradient is whole, as
//    if nothing clipped. When the norm turns out to clip, the next version is made again from both
//    (the gradient follows from the two first moments: g = (m' - b1 m) / (1 - b1)); when it is not
//    finite, the next version never counts.
enum class UpdatePolicy : uint8_t { kDeferred, kSpooled, kSpeculative };

// The gradient that an update in f32 waits with, the parts of the state, and a next first moment.
inline constexpr int kLeastSlabs = 5;

inline constexpr int64_t kRangeBytes = int64_t{32} << 20;
// Ranges are multiples of this many elements: blocks of states and of direct I/O are never cut.
inline constexpr int64_t kRangeElements = 4096;

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
  Places places;
  Streaming streaming;
  // Of the device's arena: streaming that is not given keeps as many layers as fit; 0: none.
  int64_t device_limit = 0;
  UpdatePolicy update = UpdatePolicy::kDeferred;
  // That updates of bytes elsewhere work on, two ranges in f32; what passes bring and what they
  // take has a quarter as many each, of half the size.
  int slabs = 8;
  // With bytes beyond the device, the most f32 elements of a set that are updated at once, in
  // bytes: what a slab holds. 0: kRangeBytes.
  int64_t range_bytes = 0;
  double gradient_clip = 0;  // 0: off
  // Of gradients when leaves have ended: as they are summed over micro-batches and ranks. f32 or
  // bf16.
  DType gradient = DType::kF32;
  // Of whole ones, which updates read: as `gradient`, or, of f32, rounded to bf16 where they wait
  // (kSpooled). Norms are those of `gradient`.
  DType spool = DType::kF32;
  // Of trainable sets whose weights have 16 bits: kF32, or, for bf16, kRemainder.
  StateFormat master = StateFormat::kF32;
  std::vector<StateSpec> moments = {{"adam.m", "first moment"}, {"adam.v", "second moment"}};
  // The loss's gradient is multiplied by kLossScale; norm and updates take it out again.
  bool loss_scaling = false;
  Tier tier = Tier::kHost;  // where kernels compute
  ScratchBytes scratch;     // of the collective backend; required with more than one rank

  // Kernels may compute on another tier than the host: what both work on then moves.
  int64_t most_range_bytes() const { return range_bytes > 0 ? range_bytes : kRangeBytes; }
  DType update_gradient() const { return gradient == DType::kF32 ? spool : gradient; }
  bool on_device() const { return tier == Tier::kDevice; }
  // Of what the process around the step gives and reads.
  Stream host_stream() const { return on_device() ? Stream::kHost : Stream::kCompute; }
  Tier TierOf(Home home) const {
    return home == Home::kDevice ? tier : home == Home::kSsd ? Tier::kSsd : Tier::kHost;
  }
  // Whether an update of state at home there runs where kernels compute, and on what.
  static bool UpdatesOnDevice(Home state) {
    return state == Home::kDevice || state == Home::kUnified;
  }
  Stream UpdateStream(Home state) const {
    return UpdatesOnDevice(state) ? Stream::kCompute : Stream::kUpdate;
  }

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

// The update of a range of one set: formals kParameters (0 in, 1 out by version; without 0 the
// states tell all), kState (those of StatesOf), kGradients (of Plan::update_gradient), kScalars.
using UpdateEmitter = std::function<Template(const ParameterSet& set, const UpdateRange& range)>;

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_PLAN_H_
