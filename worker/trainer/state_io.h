// The state of a rank in its engine's slots: initial values, loading from a checkpoint, and what of
// it this rank writes into one.
#ifndef STRATA_WORKER_TRAINER_STATE_IO_H_
#define STRATA_WORKER_TRAINER_STATE_IO_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "checkpoint/reader.h"
#include "checkpoint/tensor_source.h"
#include "checkpoint/writer.h"
#include "device/thread_pool.h"
#include "model/model_spec.h"
#include "program/compose/composer.h"
#include "program/ir/context_rows.h"
#include "program/ir/layer_graph.h"
#include "program/ir/mesh.h"
#include "worker/engine/engine.h"

namespace strata::worker {

// A rank's state: in which slots it lies, and which parts of the sets' flat layouts these are.
struct RankState {
  program::StateSlots slots;
  // The rank's place among the ranks that share a shard, and among those that hold the same one.
  int shard = 0, replica = 0;
  int shards = 1, replicas = 1;
  int tensor = 0;  // in the group that tensors are cut over
};
RankState StateOf(const program::StateSlots& slots, const program::Mesh& mesh, int rank);

// Which of a rank's sets. Those that are frozen come from the weights that the job began with and
// are in no checkpoint of its.
enum class Sets : uint8_t { kAll, kFrozen, kTrained };

// Fills parameters from the seed, each element the same whoever holds it; moments are zero in a new
// engine. Errors: those of the SSD tier.
absl::Status InitialiseState(Engine& engine, const RankState& state, Sets which, uint64_t seed,
                             device::ThreadPool& pool);

// Fills what is trained from a checkpoint of any layout, with what had been `applied` updates.
// Errors: those of Checkpoint::ReadRange, and InvalidArgument where a tensor has another shape.
absl::Status LoadState(Engine& engine, const RankState& state, int64_t applied,
                       checkpoint::Checkpoint& source);

// Fills the parameters alone, in a new engine, from weights of any layout. Errors of the source.
absl::Status LoadWeights(Engine& engine, const RankState& state, Sets which,
                         checkpoint::TensorSource& source);

// This rank's part of what is trained, in every state: with those of the other ranks everything
// once. After Engine::Drain; valid until the update after.
std::vector<checkpoint::SnapshotItem> SnapshotItems(Engine& engine, const RankState& state,
                                                    int64_t applied);

// The model's constants in their slots (-1: not of this rank) by model/rope_table.h, which says
// what `rows` and `sequence` are.
absl::Status FillConstants(Engine& engine, const model::ModelSpec& spec,
                           const std::vector<program::Constant>& constants,
                           const std::vector<int>& slots,
                           absl::Span<const program::ContextRun> rows, int64_t sequence);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STATE_IO_H_
