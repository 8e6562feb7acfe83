// From shapes to problems, and which kernels take them.
#ifndef STRATA_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_
#define STRATA_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_problem.cuh"

namespace strata::kernels::cuda {

// Launches of attention_simple.cu, for heads of up to 256 elements.
template <typename T>
absl::Status SimpleForward(cudaStream_t stream, const AttentionProblem<T>& problem);
template <typename T>
absl::Status SimpleBackward(cudaStream_t stream, const AttentionProblem<T>& problem);

// Launches of attention_tensor_*.cu, for problems that TensorCoresTake: heads of a multiple of 8
// elements whose rows are aligned to 16 bytes.
template <typename T>
bool TensorCoresTake(const AttentionProblem<T>& problem) {
  const bool strides = ByPackets<T>(problem.q_row) && ByPackets<T>(problem.kv_row) &&
                       ByPackets<T>(problem.q_batch) && ByPackets<T>(problem.kv_batch) &&
                       ByPackets<T>(problem.out_batch);
  return strides && ByPackets<T>(problem.head_size, problem.q, problem.k, problem.v, problem.out,
                                 problem.dout, problem.dq, problem.dk, problem.dv);
}
template <typename T>
absl::Status TensorForward(cudaStream_t stream, const AttentionProblem<T>& problem);
template <typename T>
absl::Status TensorBackward(cudaStream_t stream, const AttentionProblem<T>& problem);

// A kernel that may ask for more shared memory than there is without asking.
template <typename... Parameters, typename... Arguments>
absl::Status LaunchLarge(const char* what, void (*kernel)(Parameters...), dim3 grid, int threads,
                         size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return StatusOf(what, error);
  return Launch(what, kernel, grid, threads, shared_bytes, stream, arguments...);
}

// --- Shapes.

inline absl::Status InvalidAttention(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads,
                                     int64_t head_size) {
  return absl::InvalidArgumentError(absl::StrCat(
      "attention of ", batch, " x ", rows, " rows, ", heads, " heads over ", kv_heads, " of ",
      head_size, " elements: key heads must divide heads, a head has at most ", kMostHeadSize,
      " elements, and there are at most 2^30 rows and 65535 sequences"));
}

inline absl::Status CheckAttention(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads,
                                   int64_t head_size) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const bool heads_fit = kv_heads > 0 && heads > 0 && heads < 65536 && heads % kv_heads == 0;
  const bool fits = batch >= 0 && batch < 65536 && rows >= 0 && rows <= kMost && heads_fit &&
                    head_size > 0 && head_size <= kMostHeadSize;
  return fits ? absl::OkStatus() : InvalidAttention(batch, rows, heads, kv_heads, head_size);
}
inline absl::Status CheckAttention(const AttentionShape& shape) {
  return CheckAttention(shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size);
}

// All of a problem but where rows are and what they see.
template <typename T>
AttentionProblem<T> ProblemOfHeads(int64_t batch, int64_t heads, int64_t kv_heads,
                                   int64_t head_size, const ScoreOptions& scores) {
  AttentionProblem<T> problem;
  problem.batch = static_cast<int>(batch);
  problem.heads = static_cast<int>(heads);
  problem.kv_heads = static_cast<int>(kv_heads);
  problem.head_size = static_cast<int>(head_size);
  problem.window = static_cast<int>(std::min<int64_t>(scores.window, int64_t{1} << 30));
  problem.scale = scores.scale > 0 ? scores.scale : 1 / std::sqrt(static_cast<float>(head_size));
  problem.softcap = scores.softcap;
  problem.q_row = (heads + 2 * kv_heads) * head_size;
  return problem;
}

// --- Kernels by problem.

template <typename T>
absl::Status ForwardOf(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.batch == 0 || problem.rows == 0) return absl::OkStatus();
  if constexpr (sizeof(T) == 2) {
    if (TensorCoresTake(problem)) return TensorForward(stream, problem);
  }
  return SimpleForward(stream, problem);
}

template <typename T>
absl::Status BackwardOf(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.batch == 0 || problem.rows == 0) return absl::OkStatus();
  if constexpr (sizeof(T) == 2) {
    if (TensorCoresTake(problem)) return TensorBackward(stream, problem);
  }
  return SimpleBackward(stream, problem);
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ATTENTION_LAUNCH_CUH_
