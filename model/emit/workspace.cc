#include "model/emit/workspace.h"

#include "common/units.h"

namespace strata::model {

using common::CeilDivide;
using common::kMiB;
using common::RoundUp;

int64_t MatMulWorkspaceBytes(int64_t, int64_t, int64_t) { return 8 * kMiB; }

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels) {
  return CeilDivide(rows, 32) * RoundUp(channels * 4, 64);
}

int64_t AttentionForwardWorkspaceBytes(const AttentionShape&) { return 8 * kMiB; }
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape&) { return 8 * kMiB; }
int64_t AttentionDecodeWorkspaceBytes(const AttentionShape&, int64_t) { return 8 * kMiB; }

int64_t CrossEntropyWorkspaceBytes(int64_t rows) { return RoundUp(rows * 8, 64); }

}  // namespace strata::model
