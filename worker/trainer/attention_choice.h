// Whose attention a rank's device computes with: cuDNN's or Strata's.
#ifndef STRATA_WORKER_TRAINER_ATTENTION_CHOICE_H_
#define STRATA_WORKER_TRAINER_ATTENTION_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace strata::worker {

// The oldest cuDNN that is taken by itself, as cuDNN writes versions: of 9.14.0 the test of its
// attention has passed on a GPU.
inline constexpr int64_t kLeastCudnn = 91400;

// What the choice follows from.
struct CudnnFacts {
  bool built = false;  // whether this trainer can call cuDNN
  int capability = 0;  // of the device: 90 for 9.0
  // Of the library that the loader finds, or why there is none. Called where it matters.
  absl::FunctionRef<absl::StatusOr<int64_t>()> version;
};

struct AttentionChoice {
  bool cudnn = false;
  bool demanded = false;  // where cuDNN does not start the job ends, else Strata's kernels run
  std::string why;        // Strata's kernels; empty with cuDNN
};

// `wish`: what STRATA_GPU_CUDNN says; null: nothing. "0" takes Strata's kernels, "1" demands
// cuDNN's. Errors: what is wished is no wish, or cannot be had.
absl::StatusOr<AttentionChoice> ChooseAttention(const char* wish, const CudnnFacts& facts);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_ATTENTION_CHOICE_H_
