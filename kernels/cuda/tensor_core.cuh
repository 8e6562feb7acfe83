// Tensor cores of sm_80 and later by warps: asynchronous copies of rows to shared memory, fragments
// from there, products of 16 x 8 x 16 in bf16 or f16 with sums in f32.
#ifndef STRATA_KERNELS_CUDA_TENSOR_CORE_CUH_
#define STRATA_KERNELS_CUDA_TENSOR_CORE_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {

// Addresses are in shared memory, in bytes.
__device__ __forceinline__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// --- Asynchronous copies, in order of their groups. What is not `there` becomes zeros.

__device__ __forceinline__ void CopySixteenBytes(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyFourBytes(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
}
// Of this thread's copies.
__device__ __forceinline__ void WaitForCopies() {
  if (!Planted(Mistake::kNoCopyWait)) asm volatile("cp.async.wait_all;" ::: "memory");
}

// --- Tiles: rows of kColumns numbers of 16 bits, aligned to 128 bytes. The 16-byte chunks of a row
// are permuted by the row so that eight rows' chunks at one place, which ldmatrix reads at once,
// lie in all 32 banks.

template <int kColumns>
struct Tile {
  static constexpr int kChunks = kColumns / 8;
  static constexpr unsigned kRowBytes = kColumns * 2;
  static constexpr int kPermuted = kChunks % 8 == 0 ? 8 : 4;  // so many chunks among themselves
  static_assert(kChunks % kPermuted == 0);

  // In bytes from the tile's begin.
  __device__ static unsigned Offset(int row, int chunk) {
    return Add(row * kRowBytes + (row * kPermuted / 8 % kPermuted) * 16, 0, chunk);
  }
  // From a place in the tile to one `rows` rows on, a multiple of 8, and `chunks` chunks on, none
  // of whose bits the place's chunk has. For known distances it is an instruction or none.
  __device__ static unsigned Add(unsigned at, int rows, int chunks) {
    return (at ^ (chunks % kPermuted * 16)) + chunks / kPermuted * kPermuted * 16 +
           rows * kRowBytes;
  }
};

// Where in rows that are copied to a tile a thread begins.
template <int kColumns, typename Number>
__device__ __forceinline__ const Number* ThreadPlace(const Number* rows, int64_t stride) {
  constexpr int kPermuted = Tile<kColumns>::kPermuted;
  return rows + threadIdx.x / kPermuted * stride + threadIdx.x % kPermuted * 8;
}

// Begins to copy `rows` of a tile's kRows rows, of `columns` elements, a multiple of 8; the rest
// becomes zeros. `from` is the thread's place.
template <int kColumns, int kRows, int kThreads, typename Number>
__device__ __forceinline__ void CopyFromPlace(const Number* from, int64_t stride, int rows,
                                              int columns, unsigned to) {
  static_assert(sizeof(Number) == 2);
  using T = Tile<kColumns>;
  constexpr int kAtOnce = kThreads / T::kPermuted;  // rows
  static_assert(kAtOnce % 8 == 0);
  if (Planted(Mistake::kNoBound)) ++rows;
  const int row = threadIdx.x / T::kPermuted, chunk = threadIdx.x % T::kPermuted;
  to += T::Offset(row, chunk);
#pragma unroll
  for (int r = 0; r < kRows; r += kAtOnce, from += kAtOnce * stride) {
    if (kRows % kAtOnce != 0 && row + r >= kRows) break;
#pragma unroll
    for (int c = 0; c < T::kChunks; c += T::kPermuted) {
      CopySixteenBytes(T::Add(to, r, c), from + c * 8, row + r < rows && (chunk + c) * 8 < columns);
    }
  }
}

// The same from the rows' begin.
template <int kColumns, int kRows, int kThreads, typename Number>
__device__ __forceinline__ void CopyRows(const Number* from, int64_t stride, int rows, int columns,
                                         unsigned to) {
  CopyFromPlace<kColumns, kRows, kThreads>(ThreadPlace<kColumns>(from, stride), stride, rows,
                                           columns, to);
}

// --- Fragments, as PTX ISA lays them out: a lane has rows lane / 4 and 8 more of a product of 16
// rows, of every 8 columns lane % 4 * 2 and the next.

__device__ __forceinline__ void LoadMatrices(unsigned address, unsigned (&registers)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadTransposed(unsigned address, unsigned (&registers)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}

// Where a lane reads, of the tile's rows from `row` on, a multiple of 8: the left operand of 16
// rows; the right operand of products by 16 rows, 8 of them in two registers; and that of products
// over 16 rows (LoadTransposed), 8 columns in two registers. All take two chunks at Add(., rows,
// even chunk).
template <int kColumns>
__device__ __forceinline__ unsigned LeftPlace(unsigned tile, int row) {
  const int lane = threadIdx.x % 32;
  return tile + Tile<kColumns>::Offset(row + lane % 16, lane / 16);
}
template <int kColumns>
__device__ __forceinline__ unsigned RightPlace(unsigned tile) {
  const int lane = threadIdx.x % 32;
  return tile + Tile<kColumns>::Offset(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}
template <int kColumns>
__device__ __forceinline__ unsigned TransposedPlace(unsigned tile) {
  return LeftPlace<kColumns>(tile, 0);
}

// Number: BFloat16 or Float16, of both factors.
template <typename Number>
__device__ __forceinline__ void MultiplyAdd(const unsigned (&left)[4], unsigned right0,
                                            unsigned right1, float (&sums)[4]) {
#define STRATA_MULTIPLY_ADD(type)                                           \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
               ".f32 "                                                      \
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"      \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1))
  if constexpr (std::is_same_v<Number, BFloat16>) {
    STRATA_MULTIPLY_ADD("bf16");
  } else {
    STRATA_MULTIPLY_ADD("f16");
  }
#undef STRATA_MULTIPLY_ADD
}

// Two numbers in one register, by one instruction. What is too large for f16 becomes infinite.
template <typename Number>
__device__ __forceinline__ unsigned Round(float low, float high) {
  unsigned rounded;
  if constexpr (std::is_same_v<Number, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(rounded) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(rounded) : "f"(high), "f"(low));
  }
  return rounded;
}

// Two products of 8 columns each, rounded, are the left operand of a product over these 16.
template <typename Number>
__device__ __forceinline__ void LeftOf(const float (&low)[4], const float (&high)[4],
                                       unsigned (&left)[4]) {
  left[0] = Round<Number>(low[0], low[1]);
  left[1] = Round<Number>(low[2], low[3]);
  left[2] = Round<Number>(high[0], high[1]);
  left[3] = Round<Number>(high[2], high[3]);
}

// products[., 8 columns each] += rows of `left` times kRows rows of `right`, tiles of kColumns;
// kAtoms times 16 rows of `left` from `row` on.
template <typename Number, int kColumns, int kAtoms, int kRows>
__device__ __forceinline__ void MultiplyByRows(unsigned left_tile, int row, unsigned right_tile,
                                               float (&products)[kAtoms][kRows / 8][4]) {
  using T = Tile<kColumns>;
  const unsigned left_place = LeftPlace<kColumns>(left_tile, row);
  const unsigned right_place = RightPlace<kColumns>(right_tile);
#pragma unroll(kAtoms* kColumns <= 128 ? 8 : 4)  // 4 know which chunks are permuted
  for (int k = 0; k < kColumns / 16; ++k) {
    unsigned left[kAtoms][4];
#pragma unroll
    for (int a = 0; a < kAtoms; ++a) LoadMatrices(T::Add(left_place, 16 * a, 2 * k), left[a]);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      unsigned right[4];
      LoadMatrices(T::Add(right_place, 16 * n, 2 * k), right);
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) {
        MultiplyAdd<Number>(left[a], right[0], right[1], products[a][2 * n]);
        MultiplyAdd<Number>(left[a], right[2], right[3], products[a][2 * n + 1]);
      }
    }
  }
}

// sums[., 8 columns each] += weights, rounded, times a tile's kRows rows of kColumns.
template <typename Number, int kColumns, int kAtoms, int kRows>
__device__ __forceinline__ void AddByWeights(const float (&weights)[kAtoms][kRows / 8][4],
                                             unsigned tile,
                                             float (&sums)[kAtoms][kColumns / 8][4]) {
  const unsigned place = TransposedPlace<kColumns>(tile);
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    unsigned left[kAtoms][4];
#pragma unroll
    for (int a = 0; a < kAtoms; ++a) {
      LeftOf<Number>(weights[a][2 * k], weights[a][2 * k + 1], left[a]);
    }
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned right[4];
      LoadTransposed(Tile<kColumns>::Add(place, 16 * k, 2 * n), right);
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) {
        MultiplyAdd<Number>(left[a], right[0], right[1], sums[a][2 * n]);
        MultiplyAdd<Number>(left[a], right[2], right[3], sums[a][2 * n + 1]);
      }
    }
  }
}

// --- A warp's sums by way of a tile to rows in global memory, 16 bytes at a time.

// Of 16 rows from `row` on, which nobody else touches; what `get` gives by row's half, column and
// sum is rounded.
template <typename Number, int kColumns, typename Get>
__device__ __forceinline__ void SumsToTile(const float (&sums)[kColumns / 8][4], char* tile,
                                           int row, Get get) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = n * 8 + lane % 4 * 2;
      const unsigned at = Tile<kColumns>::Offset(row + lane / 4 + half * 8, n);
      *reinterpret_cast<unsigned*>(tile + at + lane % 4 * 4) = Round<Number>(
          get(half, column, sums[n][2 * half]), get(half, column + 1, sums[n][2 * half + 1]));
    }
  }
}
// Rows [row, row + kRows) of a tile, the first `rows` of them and of their elements the first
// `columns`, by a warp.
template <int kColumns, int kRows, typename Number>
__device__ __forceinline__ void TileToRows(const char* tile, int row, int rows, int columns,
                                           Number* to, int64_t stride) {
  static_assert(sizeof(Number) == 2);
  constexpr int kAcross = kColumns / 8;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < kRows * kAcross; i += 32) {
    const int r = i / kAcross, chunk = i % kAcross;
    if (r >= rows || chunk * 8 >= columns) continue;
    *reinterpret_cast<uint4*>(to + r * stride + chunk * 8) =
        *reinterpret_cast<const uint4*>(tile + Tile<kColumns>::Offset(row + r, chunk));
  }
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_TENSOR_CORE_CUH_
