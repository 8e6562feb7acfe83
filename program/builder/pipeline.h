// Programs of a pipeline: stages that hold a part of the layers each and pass activations and their
// gradients to each other, around tensor-parallel groups of ranks. Built, laid out, verified,
// measured and drawn; the engine does not execute them yet.
//
// Train, on every stage: load; the passes of its chunks in the order of BuildSchedule, each of all
// the chunk's layers; gradients of a set accumulate over the micro-batches in one buffer, and are
// reduced over the tensor group (where ranks hold partial sums of a whole set) when their last
// producer has ended; a set that the first and the last stage both hold (tied embeddings) then over
// these two. Every rank sums its gradients' squares, tensor group and pipeline exchange losses and
// sums, and each updates its sets. Tied sets count once in the norm, on the first stage; both
// copies get the same update.
//
// Messages: Stream::kSend and kReceive, group kPipeline; activations one stage on (channel 0; from
// the last stage to the first between chunks), gradients one stage back (channel 1). Sends and
// receives meet, so that both ends' orders must fit together: all passes and messages of all stages
// stand in one order (by the schedule's time of a pass's end; a message right after the pass that
// made it), of which each stage's list is a part. Whatever waits for something, waits for something
// earlier in that order: nobody waits for ever.
#ifndef STRATA_PROGRAM_BUILDER_PIPELINE_H_
#define STRATA_PROGRAM_BUILDER_PIPELINE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/assembler.h"
#include "program/builder/data_parallel.h"
#include "program/ir/layer_graph.h"
#include "program/compose/schedule.h"

namespace strata::program {

struct PipelineOptions {
  ScheduleOptions schedule;  // at least 2 stages; zero-bubble: templates with split backward
  int tensor = 1;            // ranks of the tensor group, for which the graph was emitted
  // Per layer: its virtual stage, ascending, each of the P·v at least once. Empty:
  // EvenVirtualStages.
  std::vector<int> virtual_stages;
  double gradient_clip = 0;  // 0: off
  Tier tier = Tier::kHost;   // of everything
  ScratchBytes scratch;      // of the collective backend
};

// The first layer with the first, the last with the last, and those between in parts as equal as
// can be.
std::vector<int> EvenVirtualStages(int layers, int count);

// One program set per stage, with one program, train, of M micro-batches of the graph's size; its
// group sizes are those of the whole mesh (data degree 1). Sets of the graph are flattened here for
// 1 range. InvalidArgument: options or graphs that do not go together.
absl::StatusOr<std::vector<ProgramSet>> BuildPipeline(LayerGraph graph, const UpdateEmitter& update,
                                                      const PipelineOptions& options);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_PIPELINE_H_
