// Kernels to test the stand-in with: as a training system has them, each also with a planted
// mistake.
#ifndef STRATA_DEVICE_STANDIN_TESTING_EXAMPLE_KERNELS_H_
#define STRATA_DEVICE_STANDIN_TESTING_EXAMPLE_KERNELS_H_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::standin {

enum class Mistake : uint8_t {
  kNone,
  // AddRmsNorm.
  kNoBarrierBeforeRead,  // of the warps' sums
  kReturnBeforeBarrier,  // threads without channels leave
  kElementNeverWritten,  // of the warps' sums
  kPastTheRow,           // 8 elements
  kMisaligned,           // 16 bytes at a multiple of 2
  // CrossEntropy.
  kNoBarrierBeforeReuse,  // of the warps' sums
  kWrongShuffleMask,
  kInPlaceTooEarly,  // logits are overwritten before the target's is read
  // AdamW.
  kPlainStoreForAtomic,
  // TileProduct.
  kNoWaitForCopy,
  kNoSecondBarrier,  // of the double buffer
  kCopyNeverWaitedFor,
};

// sum = x + branch, rstd = 1 / √(mean sum² + ε), y = sum · rstd · weight, by rows. `channels` is a
// multiple of 8.
void AddRmsNorm(cudaStream_t stream, int rows, int channels, float epsilon, const __nv_bfloat16* x,
                const __nv_bfloat16* branch, const float* weight, __nv_bfloat16* sum,
                __nv_bfloat16* y, float* rstd, Mistake mistake = Mistake::kNone);

// logits become (softmax − one-hot) · scale in place; losses[row], 0 for a negative target.
void CrossEntropy(cudaStream_t stream, int rows, int vocabulary, float scale, const int* targets,
                  __nv_bfloat16* logits, float* losses, Mistake mistake = Mistake::kNone);

struct AdamWTensor {
  float *master, *m, *v;
  const float* gradient;
  __nv_bfloat16* parameter;
  int64_t count;
};
struct AdamWTensors {
  AdamWTensor tensors[16];
  int count;
};
struct AdamWScalars {
  float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};
// *flag becomes 1 when a gradient is not finite, and nothing else changes then.
void AdamW(cudaStream_t stream, const AdamWTensors& tensors, const AdamWScalars& scalars,
           unsigned* flag, Mistake mistake = Mistake::kNone);

// c[m, n] = a[m, k] · b[n, k]ᵀ on tensor cores; m and n are multiples of 64, k of 32.
void TileProduct(cudaStream_t stream, int m, int n, int k, const __nv_bfloat16* a,
                 const __nv_bfloat16* b, float* c, Mistake mistake = Mistake::kNone);

// *total = Σ x, by the block that finishes last. `ticket` is 0 before and after; partials: blocks.
enum class Ticket : uint8_t { kFenced, kUnfenced, kAcquireRelease };
void SumByLastBlock(cudaStream_t stream, int blocks, int count, const float* x, float* partials,
                    unsigned* ticket, float* total, Ticket kind);

// y = 2 x + 1.
void Scale(cudaStream_t stream, int count, const float* x, float* y);

// Small ones, each for one thing of the stand-in.
void ExchangeByWarp(cudaStream_t stream, int* out, bool sync);  // neighbours, through shared memory
void WaitForever(cudaStream_t stream, int* flag);
void HalfOfTheWarpWaits(cudaStream_t stream, int* out);
void ReadClock(cudaStream_t stream, int64_t* out);  // an instruction that the stand-in has not
void PassBetweenWarps(cudaStream_t stream, int rounds, int* out);  // named barriers
void SetTable(const float (&values)[4], cudaStream_t stream);
void ReadTable(cudaStream_t stream, float* out);  // a constant variable and a global one
void WriteSharedDynamic(cudaStream_t stream, int threads, size_t shared_bytes, float* out);
cudaError_t AllowShared(int bytes);

// Each lane computes many things of its number; for comparison with the host.
struct ScalarInput {
  float f;
  double d;
  int32_t i;
  uint32_t u;
  int64_t l;
};
struct ScalarOutput {
  float sum, product, quotient, fused, root, smaller, exponential, logarithm, sine, power,
      rounded_down, to_zero;
  double d_sum, d_quotient, d_root;
  int32_t quotient_i, remainder_i, high, population, leading_zeros, first_set, shifted, to_int,
      funnel, permuted, byte_sum;
  uint32_t quotient_u, high_u, reversed;
  int64_t wide, product_l, quotient_l, high_l;
  __nv_bfloat16 brain, brain_fused;
  uint16_t half_bits;
  uint8_t small;
};
void ComputeScalars(cudaStream_t stream, int count, const ScalarInput* in, ScalarOutput* out);

struct WarpOutput {
  int down, up, butterfly, index, segment;
  unsigned ballot, active, match;
  int any, all, sum, least, counted;
};
void ComputeWarp(cudaStream_t stream, int threads, const int* in, WarpOutput* out);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_TESTING_EXAMPLE_KERNELS_H_
