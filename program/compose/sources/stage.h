// What the sources of one stage's programs share.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_STAGE_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_STAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "program/compose/assembler.h"
#include "program/compose/plan.h"
#include "program/compose/plan_sets.h"
#include "program/compose/plan_walk.h"
#include "program/ir/unified.h"

namespace strata::program {

// One call of a layer's template.
struct Use {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  int layer = 0;
  int template_index = -1;
};

// Borrowed; everything outlives the sources.
struct Stage {
  const LayerGraph& graph;
  const Plan& plan;
  const StagePlan& sets;
  const Leaves leaves;
  Assembler& assembler;

  int index() const { return sets.stage; }
  const ParameterSet& SetOf(const SetPlan& set) const { return graph.sets[set.index]; }
  // Between which ranks the squares of gradients are divided.
  Group norm_group() const {
    return plan.shard == ShardLevel::kNone ? Group::kData : plan.shard_group();
  }
  // Where bytes at home there are while kernels work on them: of unified memory their room. A
  // transient slot of the program begun last.
  int AddPlace(std::string name, Home home, SlotClass klass, int64_t bytes) const {
    return assembler.AddTransient(
        Slot{.name = std::move(name),
             .tier = assembler.tier(),
             .klass = klass,
             .bytes = bytes,
             .alignment = home == Home::kUnified ? kUnifiedPage : kSlotAlignment});
  }
  // This rank's equal part of something that all ranks of the group have room for.
  Operand OwnPart(Group group, int slot, int64_t whole_bytes) const {
    return OwnPart(group, slot, whole_bytes, 0, whole_bytes / plan.groups.of(group));
  }
  // `bytes` from `offset` on inside the rank's part.
  Operand OwnPart(Group group, int slot, int64_t whole_bytes, int64_t offset, int64_t bytes) const {
    const int size = plan.groups.of(group);
    return {.slot = slot,
            .offset = offset,
            .bytes = bytes,
            .shard_group = size > 1 ? group : Group::kNone,
            .shard_stride = size > 1 ? whole_bytes / size : 0};
  }
};

// Trainable sets in the graph's order; positions in StagePlan::sets.
std::vector<int> Trainable(const Stage& stage);
// The same as the next forward needs them; of a layer's the small ones first, which take no time.
std::vector<int> InOrderOfUse(const Stage& stage);

// The stage's calls of a walk, in order: what Compose calls, and what residency is planned over.
std::vector<Use> UsesOf(const LayerGraph& graph, const Walk& walk, int stage);
// Those of one pass.
std::vector<Use> UsesOf(const LayerGraph& graph, const Walk& walk, const WalkPass& pass);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_STAGE_H_
