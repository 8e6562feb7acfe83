// Which layouts can be, and what to do instead where one cannot. Pure arithmetic over plain
// numbers: the job file's checks, the planner and the composer ask the same rules.
//
// Order of sums. The gradients of V virtual shards are the leaves 0…V−1 of one fixed tree, paired
// from below (2i with 2i+1; a last one without a partner goes up as it is). A layout computes the
// sums of blocks of leaves first, and gives the tree's bits where each of its blocks is a subtree.
// With s ranks that share a shard, R = data / s replicas and L = V / data leaves a rank, rank
// (replica, r) computes as its l-th the leaf
//   v = replica · (L·s) + l·s + r,
// so the first sum is over the aligned block of the s leaves of one l, the next over the L·s leaves
// of a replica, the last over replicas. zero2 and zero3 sum over the ranks of a shard first
// (s = shard_group; ZeRO, Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", SC 2020, §5); none and zero1 sum a rank's own leaves first (s = 1), and zero1
// then its shard group's and last the replicas'.
#ifndef STRATA_PROGRAM_COMPOSE_CHECK_PLAN_H_
#define STRATA_PROGRAM_COMPOSE_CHECK_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/ir/context_rows.h"

namespace strata::program {

// A layout and what of the job it must fit. A number that is 0 and a list that is empty are not
// known (or not asked for), and rules that need them are left out.
struct PlanShape {
  enum class Shard : uint8_t { kNone, kZero1, kZero2, kZero3 };
  enum class Schedule : uint8_t { kGpipe, k1F1B, kInterleaved, kZeroBubble, kZbv };
  using ContextMethod = program::ContextMethod;
  struct Layers {
    int64_t first = 0, last = 0;  // inclusive
  };

  int64_t data = 1;
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;
  int64_t virtual_stages = 1;   // per rank
  std::vector<int64_t> stages;  // layers of each of pipeline · virtual_stages, in model order
  Shard shard = Shard::kNone;
  int64_t shard_group = 0;     // 0: data
  int64_t virtual_shards = 0;  // 0: off, each layout has an order of its own
  Schedule schedule = Schedule::k1F1B;
  bool layer_first = false;  // micro_order
  ContextMethod context_method = ContextMethod::kRing;
  std::optional<Layers> recompute_layers;
  std::vector<std::string> recompute_saves;  // names of saved values

  int64_t global_batch = 0;  // sequences per step
  int64_t micro_batch = 0;   // of them, per rank and pass
  int64_t sequence = 0;      // tokens
  // Of the model; without experts.
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn = 0;
};

struct PlanProblem {
  std::string field;  // of the job file, to blame: "parallel.tensor"
  std::string what;   // with its reason in parentheses
  // What makes the nearest legal plan of it, as settings: "use tensor: 2, train.micro_batch: 1 and
  // remove stages" (keys of the field's own section without it). Where several rules are broken,
  // all problems' together. Empty where a name that nobody knows is to be replaced.
  std::string instead;
};

// Whether the layout adds the gradients of `virtual_shards` leaves with the bits of the fixed tree.
// All numbers at least 1; shard_group divides data, data divides virtual_shards (else false).
bool SumsAreSubtrees(PlanShape::Shard shard, int64_t data, int64_t shard_group,
                     int64_t virtual_shards);

// The legal plan that differs least from this one, rule by rule: fewest fields, those to blame
// first, numbers by the least factor, rather smaller than larger. What it trains stays: the batch,
// the sequence, the model. Nothing: none was found.
std::optional<PlanShape> NearestLegal(const PlanShape& plan,
                                      const std::vector<std::string>& savable);

// Every rule that is broken, of each group of fields (batch and order of sums; shards; tensor;
// context; stages; schedule; experts; recompute) the first. `savable`: names of the values that a
// forward pass can keep (model/saved_values.h). Empty: the plan can be composed.
std::vector<PlanProblem> CheckPlan(const PlanShape& plan, const std::vector<std::string>& savable);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_CHECK_PLAN_H_
