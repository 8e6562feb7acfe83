// What a workspace depends on beside an op's shape: whose kernels compute, with how many threads a
// rank does on the CPU, and how wide the tiles of its kernels are at most. Workspaces are part of
// the memory prediction, so they are upper bounds computed from these numbers; a kernel compares
// them with its own need when it is bound and refuses less (tests/parity/workspace_bounds_test.cc
// and cuda_workspace_bounds_test.cc compare the two over many shapes).
#ifndef STRATA_OPS_BACKEND_H_
#define STRATA_OPS_BACKEND_H_

#include <algorithm>
#include <cstdint>

#include "common/units.h"
#include "program/ir/operand.h"

namespace strata::ops {

// kernels/cpu, kernels/cuda.
enum class BackendKind : uint8_t { kCpu, kCuda };

// Sizes in elements unless a name says otherwise.
struct Backend {
  BackendKind kind = BackendKind::kCpu;
  int64_t threads = 1;  // of the CPU kernels

  bool on_cuda() const { return kind == BackendKind::kCuda; }

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

  // CUDA's kernels: partial gradients of norms' weights at most; of biases, and rows of one; what
  // cuBLASLt's plans have, with room to begin where they ask for.
  int64_t cuda_norm_parts = 256;
  int64_t cuda_bias_parts = 128, cuda_bias_rows = 32;
  int64_t cuda_product_bytes = 32 * common::kMiB, cuda_alignment_bytes = 256;

  // Partial gradients of norms' weights over so many rows.
  int64_t NormParts(int64_t rows) const {
    return on_cuda() ? std::min(rows, cuda_norm_parts) : common::CeilDivide(rows, norm_rows);
  }
  // A part of a workspace, of whole cache lines; in bytes.
  static int64_t Part(int64_t floats) {
    return common::RoundUp(floats * 4, program::kSlotAlignment);
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_BACKEND_H_
