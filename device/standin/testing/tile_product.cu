// A matrix product on tensor cores, as nvcc compiles it for sm_80 and later: cp.async, ldmatrix,
// mma.sync, a double buffer. A block of four warps makes 64 × 64 elements.
#include <cooperative_groups.h>
#include <cuda_bf16.h>

#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

constexpr int kTile = 64, kDepth = 32, kPitch = kDepth + 8;  // elements; the pitch avoids conflicts
using Tile = __nv_bfloat16[kTile][kPitch];

__device__ unsigned SharedAddress(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void CopySixteenBytes(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from));
}

// Starts copies of kTile rows of kDepth columns.
__device__ void FetchTile(Tile& to, const __nv_bfloat16* from, int pitch) {
  for (int i = threadIdx.x; i < kTile * kDepth / 8; i += blockDim.x) {
    const int row = i / (kDepth / 8), column = i % (kDepth / 8) * 8;
    CopySixteenBytes(&to[row][column], from + static_cast<size_t>(row) * pitch + column);
  }
}

__device__ void MultiplyTiles(const Tile& a, const Tile& b, float (&sums)[8][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int k = 0; k < kDepth; k += 16) {
    unsigned fa[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(SharedAddress(&a[warp * 16 + lane % 16][k + lane / 16 * 8])));
    for (int j = 0; j < 8; ++j) {
      unsigned fb[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                   : "=r"(fb[0]), "=r"(fb[1])
                   : "r"(SharedAddress(&b[j * 8 + lane % 8][k + lane / 8 % 2 * 8])));
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
          : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    }
  }
}

template <Mistake kMistake>
__global__ void __launch_bounds__(128)
    TileProductKernel(int n, int k, const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  __shared__ __align__(16) Tile tiles_a[2], tiles_b[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  float sums[8][4] = {};
  const auto fetch = [&](int tile) {
    FetchTile(tiles_a[tile & 1], a + row0 * k + tile * kDepth, k);
    FetchTile(tiles_b[tile & 1], b + column0 * k + tile * kDepth, k);
    asm volatile("cp.async.commit_group;");
  };
  fetch(0);
  const int count = k / kDepth;
  for (int tile = 0; tile < count; ++tile) {
    const bool more = tile + 1 < count || kMistake == Mistake::kCopyNeverWaitedFor;
    if (more) fetch(tile + 1 < count ? tile + 1 : 0);
    if (more && kMistake != Mistake::kNoWaitForCopy) asm volatile("cp.async.wait_group 1;");
    if (!more) asm volatile("cp.async.wait_group 0;");
    cooperative_groups::this_thread_block().sync();
    MultiplyTiles(tiles_a[tile & 1], tiles_b[tile & 1], sums);
    if (kMistake != Mistake::kNoSecondBarrier) cooperative_groups::this_thread_block().sync();
  }
  for (int j = 0; j < 8; ++j) {
    for (int half = 0; half < 2; ++half) {
      const size_t row = row0 + warp * 16 + lane / 4 + half * 8;
      float2* out = reinterpret_cast<float2*>(c + row * n + column0 + j * 8 + lane % 4 * 2);
      *out = make_float2(sums[j][2 * half], sums[j][2 * half + 1]);
    }
  }
}

}  // namespace

void TileProduct(cudaStream_t stream, int m, int n, int k, const __nv_bfloat16* a,
                 const __nv_bfloat16* b, float* c, Mistake mistake) {
  const auto launch = [&](auto* kernel) {
    kernel<<<dim3(n / kTile, m / kTile), 128, 0, stream>>>(n, k, a, b, c);
  };
  switch (mistake) {
    case Mistake::kNoWaitForCopy:
      return launch(TileProductKernel<Mistake::kNoWaitForCopy>);
    case Mistake::kNoSecondBarrier:
      return launch(TileProductKernel<Mistake::kNoSecondBarrier>);
    case Mistake::kCopyNeverWaitedFor:
      return launch(TileProductKernel<Mistake::kCopyNeverWaitedFor>);
    default:
      return launch(TileProductKernel<Mistake::kNone>);
  }
}

}  // namespace strata::standin
