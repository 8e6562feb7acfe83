// cuDNN's attention (its graph API): bf16 and f16, causal, grouped queries, heads of a multiple of
// 8 elements up to 256; without windows and softcaps.
#ifndef STRATA_KERNELS_CUDA_CUDNN_CUDNN_ATTENTION_H_
#define STRATA_KERNELS_CUDA_CUDNN_CUDNN_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention_library.h"

namespace strata::kernels::cuda {

// Its backward writes the gradients of scores to memory where it must give the same bits in every
// run (on Hopper). What has more of them goes in pieces, of sequences or of heads.
inline constexpr int64_t kCudnnScoreBytes = int64_t{512} << 20;
// All that its plans may take of the device, those gradients among it; and what they leave free for
// what a job takes later: graphs, kernels as they are first called, NCCL's buffers.
inline constexpr int64_t kCudnnWorkspaceBytes = int64_t{640} << 20;
inline constexpr int64_t kLeftFreeBytes = int64_t{1} << 30;

// Of the device that is current. cuDNN is not linked with: libcudnn.so.9 is opened where the loader
// finds it. Its workspaces are allocated on the device when plans are made. Errors: NOT_FOUND:
// there is no library; else it refuses the device.
absl::StatusOr<std::unique_ptr<AttentionLibrary>> OpenCudnnAttention(
    int64_t most_score_bytes = kCudnnScoreBytes,
    int64_t most_workspace_bytes = kCudnnWorkspaceBytes);

// Whether cuDNN takes the graphs of both directions for a device of such properties (its JSON) and
// compute capability (90 for 9.0), which need not be there: no kernels are chosen.
absl::Status DescribeCudnnAttention(const std::string& device, int capability,
                                    const AttentionShape& shape, NumberType type);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_CUDNN_ATTENTION_H_
