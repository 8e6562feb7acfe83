// A thread per packet of a row; the grid's z is blocks, unless several go to one place, which a
// thread then takes in order.
#include <utility>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/move_blocks.h"

namespace strata::kernels::cuda {
namespace {

// Bits are copied as they are.
template <int N, typename T>
__device__ __forceinline__ void CopyBits(const T* from, T* to) {
  if constexpr (N == 1) {
    *to = *from;
  } else {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(256)
    MoveBlocksKernel(BlockMove m, bool adds, const T* from, T* to) {
  ForRows<N>(m.rows, m.width, [&](int64_t row, int64_t c) {
    for (int64_t block = blockIdx.z; block < m.blocks; block += gridDim.z) {
      const T* source = from + block * m.from_block + row * m.from_row + c;
      T* into = to + block * m.to_block + row * m.to_row + c;
      if (adds) {
        float v[N], more[N];
        Load(into, v);
        Load(source, more);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] += more[i];
        Store(into, v);
      } else {
        CopyBits<N>(source, into);
      }
    }
  });
}

template <typename T>
bool MovesByPackets(const BlockMove& m, const T* from, const T* to) {
  constexpr int64_t kEach = kPacket<T>;
  return ByPackets<T>(m.width, from, to) && m.from_block % kEach == 0 && m.from_row % kEach == 0 &&
         m.to_block % kEach == 0 && m.to_row % kEach == 0;
}

absl::Status CheckHeads(const HeadsShape& s) {
  if (s.blocks < 0 || s.elements < 0 || s.part < 0 || s.part >= s.parts) {
    return absl::InvalidArgumentError(absl::StrCat("heads of part ", s.part, " of ", s.parts,
                                                   ", of ", s.elements, " elements, in ", s.blocks,
                                                   " blocks"));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status MoveBlocks(cudaStream_t stream, const BlockMove& move, bool adds, const T* from,
                        T* to) {
  constexpr int64_t kMostWidth = int64_t{1} << 36;  // of a grid
  if (move.blocks < 0 || move.rows < 0 || move.width < 0 || move.width > kMostWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("move of ", move.blocks, " blocks of ", move.rows, " rows of ", move.width));
  }
  if (move.blocks == 0 || move.rows == 0 || move.width == 0) return absl::OkStatus();
  const bool by_packets = MovesByPackets(move, from, to);
  const auto [grid, threads] =
      GridOfRows(move.rows, by_packets ? move.width / kPacket<T> : move.width,
                 move.to_block == 0 ? 1 : move.blocks);
  return Launch("move of blocks",
                by_packets ? &MoveBlocksKernel<T, kPacket<T>> : &MoveBlocksKernel<T, 1>, grid,
                threads, 0, stream, move, adds, from, to);
}

template <typename T>
absl::Status TakeHeads(cudaStream_t stream, const HeadsShape& shape, const T* all, T* own) {
  RETURN_IF_ERROR(CheckHeads(shape));
  return MoveBlocks(stream,
                    {.rows = shape.blocks,
                     .width = shape.elements,
                     .from_row = shape.parts * shape.elements,
                     .to_row = shape.elements},
                    false, all + shape.part * shape.elements, own);
}

template <typename T>
absl::Status AddHeads(cudaStream_t stream, const HeadsShape& shape, const T* own, T* all) {
  RETURN_IF_ERROR(CheckHeads(shape));
  return MoveBlocks(stream,
                    {.rows = shape.blocks,
                     .width = shape.elements,
                     .from_row = shape.elements,
                     .to_row = shape.parts * shape.elements},
                    true, own, all + shape.part * shape.elements);
}

template <typename T>
absl::Status OrderRows(cudaStream_t stream, const OrderedRowsShape& shape, bool inverse, T* ranked,
                       T* ordered) {
  const int64_t ranks = shape.ranks, runs = ranks == 1 ? 1 : 2;
  if (shape.batch < 0 || ranks < 1 || shape.rows < 0 || shape.rows % runs != 0 || shape.width < 0) {
    return absl::InvalidArgumentError(absl::StrCat("order of ", shape.rows, " rows of ",
                                                   shape.width, " in each of ", shape.batch,
                                                   " sequences on ", ranks, " ranks"));
  }
  const int64_t run = shape.rows / runs * shape.width;  // elements
  for (int64_t i = 0; i < runs; ++i) {  // early runs, which go up with the rank; late ones, down
    T* const of_ranks = ranked + i * run;
    T* const in_order = ordered + i * (2 * ranks - 1) * run;
    BlockMove move{.blocks = ranks,
                   .rows = shape.batch,
                   .width = run,
                   .from_block = shape.stride,
                   .from_row = runs * run,
                   .to_block = i == 0 ? run : -run,
                   .to_row = ranks * runs * run};
    if (inverse) {
      std::swap(move.from_block, move.to_block);
      std::swap(move.from_row, move.to_row);
    }
    RETURN_IF_ERROR(MoveBlocks<T>(stream, move, false, inverse ? in_order : of_ranks,
                                  inverse ? of_ranks : in_order));
  }
  return absl::OkStatus();
}

#define STRATA_INSTANTIATE(T)                                                              \
  template absl::Status MoveBlocks<T>(cudaStream_t, const BlockMove&, bool, const T*, T*); \
  template absl::Status TakeHeads<T>(cudaStream_t, const HeadsShape&, const T*, T*);       \
  template absl::Status AddHeads<T>(cudaStream_t, const HeadsShape&, const T*, T*);        \
  template absl::Status OrderRows<T>(cudaStream_t, const OrderedRowsShape&, bool, T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
