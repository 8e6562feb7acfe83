// Programs whose parameters are on the device for a window of layers only, wherever they live
// otherwise: in shards on the ranks of the data group (ZeRO-3), in host memory (layer streaming),
// or on SSD behind a pool of pinned slabs (ZeRO-Infinity, MemAscend). Built, laid out, verified,
// measured and drawn; the engine does not execute them yet.
//
// Train: per micro-batch, forward and backward of all layers, each fetched ahead as PlanResidency
// says. Gradients leave the device through a window of two buffers: reduce-scattered and added to
// the rank's shard, or moved to the host and added where they live. Then the update where the state
// lives:
//  - deferred: all gradients kept, norm, clip factor, update;
//  - spooled: gradients on SSD until the norm is known, then each set's gradient and state are
//  read, updated, written;
//  - speculative: each set is updated as soon as its gradient is whole, into the state's next
//  version; when the norm
//    turns out to clip, both versions are read and the next one is made again (the gradient follows
//    from the two first moments: g = (m′ − β₁ m) / (1 − β₁)); when it is not finite, the next
//    version never counts.
// Evaluate: forward only.
#ifndef STRATA_PROGRAM_BUILDER_STREAMED_H_
#define STRATA_PROGRAM_BUILDER_STREAMED_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "program/compose/assembler.h"
#include "program/builder/data_parallel.h"
#include "program/ir/layer_graph.h"

namespace strata::program {

enum class Home : uint8_t { kShards, kHost, kSsd };
enum class UpdatePolicy : uint8_t { kDeferred, kSpooled, kSpeculative };

struct StreamedOptions {
  Home home = Home::kShards;
  UpdatePolicy policy = UpdatePolicy::kDeferred;  // kSsd: spooled or speculative; others: deferred
  int data = 1;                                   // ranks; more than one only with kShards
  int64_t micro_batches = 1;
  int resident = 3;   // window of layers on the device
  int moved = 1;      // fetched at once
  int slabs = 8;      // kSsd: pinned slabs, each as large as the largest set; at least 5
  bool train = true;  // otherwise only the evaluate program, with one micro-batch
  double gradient_clip = 1;
  ScratchBytes scratch;  // kShards with more than one rank
};

// Errors: InvalidArgument for options that do not go together.
absl::StatusOr<ProgramSet> BuildStreamed(LayerGraph graph, const UpdateEmitter& update,
                                         const StreamedOptions& options);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_STREAMED_H_
