// What a workspace depends on beside an op's shape: how many threads a rank computes with, and how
// wide the tiles of its kernels are at most. Workspaces are part of the memory prediction, so they
// are upper bounds computed from these numbers; a kernel compares them with its own need when it is
// bound and refuses less (tests/parity/workspace_bounds_test.cc compares the two over many shapes).
#ifndef STRATA_OPS_BACKEND_H_
#define STRATA_OPS_BACKEND_H_

#include <cstdint>

#include "common/units.h"
#include "program/ir/operand.h"

namespace strata::ops {

// The CPU kernels. Sizes in elements unless a name says otherwise.
struct Backend {
  int64_t threads = 1;

  // Products (kernels/matmul.h): a register tile, the blocks that are packed at once, and the
  // matrix library's scratchpad per thread.
  int64_t tile_rows = 6, tile_columns = 32, lanes = 8;
  int64_t block_rows = 2112, block_columns = 2048, block_depth = 256;
  int64_t library_bytes = 4 * common::kMiB;
  // Attention's tiles at most, of query rows half for heads wider than narrow ones, of keys half
  // for heads of more than twice that. Scores are made of some rows at a time.
  int64_t attention_keys = 96, attention_narrow_head = 64, attention_block_rows = 24;
  int64_t attention_forward_rows = 192, attention_backward_rows = 96;
  // Rows of one partial gradient of norm weights.
  int64_t norm_rows = 32;

  // A part of a workspace, of whole cache lines; in bytes.
  static int64_t Part(int64_t floats) {
    return common::RoundUp(floats * 4, program::kSlotAlignment);
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_BACKEND_H_
