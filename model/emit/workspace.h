// Upper bounds, in bytes, of the workspace that kernels need: part of the memory prediction, so
// functions of the shape alone. Kernels check them when they are loaded.
#ifndef STRATA_MODEL_EMIT_WORKSPACE_H_
#define STRATA_MODEL_EMIT_WORKSPACE_H_

#include <cstdint>

#include "model/emit/ops.h"

namespace strata::model {

int64_t MatMulWorkspaceBytes(int64_t m, int64_t n, int64_t k);
int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels);
int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape);
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape);
int64_t AttentionDecodeWorkspaceBytes(const AttentionShape& shape, int64_t context);
int64_t CrossEntropyWorkspaceBytes(int64_t rows);

}  // namespace strata::model

#endif  // STRATA_MODEL_EMIT_WORKSPACE_H_
