// The state of a rank in its engine's slots: initial values, loading from a checkpoint, and what of
// it this rank writes into one.
#ifndef STRATA_WORKER_TRAINER_STATE_IO_H_
#define STRATA_WORKER_TRAINER_STATE_IO_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "device/thread_pool.h"
#include "worker/engine/engine.h"

namespace strata::worker {

// Where the state lies. Parameters are whole on every rank; moments are whole, or the rank's equal
// range of the flat layout.
struct StateSlots {
  std::vector<int> parameters;              // per set
  std::vector<std::array<int, 2>> moments;  // per set; -1: none. Empty: inference
  int rank = 0;                             // in the data group
  int ranks = 1;                            // of it
  bool shard_moments = false;
};

// Fills parameters from the seed; moments are zero in a new engine.
void InitialiseState(const Engine& engine, const StateSlots& slots, uint64_t seed,
                     device::ThreadPool& pool);

// Fills all of it from a checkpoint of any layout, with what had been `applied` updates. Errors:
// those of Checkpoint::ReadRange, and InvalidArgument where a tensor has another shape.
absl::Status LoadState(const Engine& engine, const StateSlots& slots, int64_t applied,
                       checkpoint::Checkpoint& source);

// This rank's part: its equal range of every set, in every state. Valid until the update after.
std::vector<checkpoint::SnapshotItem> SnapshotItems(const Engine& engine, const StateSlots& slots,
                                                    int64_t applied);

// Constant tables: `slot` holds the rotary table of `rows` positions.
void FillRopeTable(const Engine& engine, int slot, int64_t rows, int64_t head_size, double theta);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STATE_IO_H_
