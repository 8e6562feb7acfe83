// Upper bounds, in bytes, of the workspace that CPU kernels need: part of the memory prediction, so
// functions of the shape and of the number of threads that a rank computes with. Kernels check them
// when they are loaded and refuse to run in less; a test compares the two over many shapes.
#ifndef STRATA_MODEL_EMIT_WORKSPACE_H_
#define STRATA_MODEL_EMIT_WORKSPACE_H_

#include <cstdint>

#include "model/emit/ops.h"

namespace strata::model {

// Packed blocks of both factors (at most 2112 × 256 and 256 × 2048 floats), or the matrix library's
// scratchpad of at most 4 MiB per thread, whichever is more.
int64_t MatMulWorkspaceBytes(const MatMulShape& shape, int64_t threads);

// A partial gradient of the weights per 32 rows.
int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels);

// Per thread, tiles of 96 keys and of at most 256 (backward: 128) query rows, or as many as a group
// has query heads: forward keys, values, queries, outputs; backward keys and their transpose,
// values, their gradients, queries, output gradients, probabilities and their gradients, and per
// row of the batch and head the product of output and its gradient.
int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int64_t threads);
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int64_t threads);
// As forward.
int64_t AttentionDecodeWorkspaceBytes(const AttentionShape& shape, int64_t threads);

// A loss per row.
int64_t CrossEntropyWorkspaceBytes(int64_t rows);

// The other members' unreduced parts of a reduction of `bytes` in all.
int64_t ReduceScatterScratchBytes(int64_t bytes, int64_t members);

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_WORKSPACE_H_
