// The "last block" idiom: each block leaves a partial sum and draws a ticket; who draws the last
// adds up.
#include <cuda/atomic>

#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

template <Ticket kTicket>
__global__ void SumByLastBlockKernel(int count, const float* x, float* partials, unsigned* ticket,
                                     float* total) {
  __shared__ float warps[4];
  __shared__ bool is_last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    sum += x[i];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
    unsigned before;
    if (kTicket == Ticket::kAcquireRelease) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_device> drawn(*ticket);
      before = drawn.fetch_add(1, cuda::memory_order_acq_rel);
    } else {
      if (kTicket == Ticket::kFenced) __threadfence();
      before = atomicAdd(ticket, 1u);
      if (kTicket == Ticket::kFenced) __threadfence();
    }
    is_last = before == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x < 32) {
    float all = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) all += partials[i];
    for (int d = 16; d > 0; d /= 2) all += __shfl_xor_sync(~0u, all, d);
    if (threadIdx.x == 0) {
      *total = all;
      atomicExch(ticket, 0u);
    }
  }
}

}  // namespace

void SumByLastBlock(cudaStream_t stream, int blocks, int count, const float* x, float* partials,
                    unsigned* ticket, float* total, Ticket kind) {
  const auto launch = [&](auto* kernel) {
    kernel<<<blocks, 128, 0, stream>>>(count, x, partials, ticket, total);
  };
  switch (kind) {
    case Ticket::kFenced:
      return launch(SumByLastBlockKernel<Ticket::kFenced>);
    case Ticket::kUnfenced:
      return launch(SumByLastBlockKernel<Ticket::kUnfenced>);
    case Ticket::kAcquireRelease:
      return launch(SumByLastBlockKernel<Ticket::kAcquireRelease>);
  }
}

}  // namespace strata::standin
