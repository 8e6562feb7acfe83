// A link is full with few blocks under way; more would only take the place of kernels that compute.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/decided_copy.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr unsigned kMostBlocks = 32;

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    DecidedCopyKernel(const double* decides, bool negated, int64_t count, const Word* from,
                      Word* to) {
  if ((*decides != 0) == negated) return;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < end; i += stride) {
    to[i] = from[i];
  }
}

template <typename Word>
absl::Status Run(cudaStream_t stream, const double* decides, bool negated, int64_t bytes,
                 const void* from, void* to) {
  const int64_t count = bytes / static_cast<int64_t>(sizeof(Word));
  return Launch("a copy that is decided", &DecidedCopyKernel<Word>,
                std::min(BlocksFor(count, kThreads), kMostBlocks), kThreads, 0, stream, decides,
                negated, count, static_cast<const Word*>(from), static_cast<Word*>(to));
}

}  // namespace

absl::Status DecidedCopy(cudaStream_t stream, const double* decides, bool negated, int64_t bytes,
                         const void* from, void* to) {
  if (bytes < 0 || decides == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a decided copy of ", bytes, " bytes"));
  }
  if (bytes == 0) return absl::OkStatus();
  const auto divides = [&](uintptr_t word) {
    return (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | bytes) % word ==
           0;
  };
  if (divides(16)) return Run<uint4>(stream, decides, negated, bytes, from, to);
  if (divides(4)) return Run<uint32_t>(stream, decides, negated, bytes, from, to);
  return Run<uint8_t>(stream, decides, negated, bytes, from, to);
}

}  // namespace strata::kernels::cuda
