// Blocks of rows that are copied or added on CUDA devices: MoveBlocks of kernels/elementwise.h. T
// is float, BFloat16 or Float16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_MOVE_BLOCKS_H_
#define STRATA_KERNELS_CUDA_MOVE_BLOCKS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// Equal blocks of rows, in strides of elements: `width` of row r of block b lie at b * block + r *
// row. Strides may be negative.
struct BlockMove {
  int64_t blocks = 1, rows = 0, width = 0;
  int64_t from_block = 0, from_row = 0, to_block = 0, to_row = 0;
};

// to = from, or with `adds` to += from, block after block: several may come from one place, or be
// added to one. Rows of `to` do not overlap within a block, nor with other rows of other blocks.
template <typename T>
absl::Status MoveBlocks(cudaStream_t stream, const BlockMove& move, bool adds, const T* from,
                        T* to);

// Of weights [blocks, parts, E], a part of each block.
struct HeadsShape {
  int64_t blocks = 0;    // keys, values: 2
  int64_t parts = 0;     // heads
  int64_t elements = 0;  // E
  int64_t part = 0;      // of this rank
};

// own[blocks, E] = the part of all[blocks, parts, E].
template <typename T>
absl::Status TakeHeads(cudaStream_t stream, const HeadsShape& shape, const T* all, T* own);
// The part of `all` += own; the others stay as they are.
template <typename T>
absl::Status AddHeads(cudaStream_t stream, const HeadsShape& shape, const T* own, T* all);

// Rows of sequences of which the ranks of a context group have two runs each: of 2 R equal runs
// rank r has run r, then run 2 R - 1 - r; 1 rank has them as they are.
struct OrderedRowsShape {
  int64_t batch = 0, ranks = 0;
  int64_t rows = 0;    // of each sequence that a rank has; even, where there are several
  int64_t width = 0;   // elements of a row
  int64_t stride = 0;  // elements between ranks
};

// ordered[batch, ranks * rows, width] = the rows of ranked, which lie rank after rank, each
// [batch, rows, width]; with `inverse` the way back.
template <typename T>
absl::Status OrderRows(cudaStream_t stream, const OrderedRowsShape& shape, bool inverse, T* ranked,
                       T* ordered);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_MOVE_BLOCKS_H_
