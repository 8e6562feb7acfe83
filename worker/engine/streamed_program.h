// A small model's step with parameters, optimizer state and updates on the host.
#ifndef STRATA_WORKER_ENGINE_STREAMED_PROGRAM_H_
#define STRATA_WORKER_ENGINE_STREAMED_PROGRAM_H_

#include "program/ir/layer_graph.h"
#include "program/ir/program.h"

namespace strata::worker {

program::Template SmallUpdate(const program::ParameterSet& set, int64_t count);

// `resident` layers are on the device at once; one micro-batch.
program::ProgramSet StreamedProgram(program::LayerGraph graph, int resident);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_STREAMED_PROGRAM_H_
