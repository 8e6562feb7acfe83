#include "device/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace strata::device {
namespace {

struct Advice {
  absl::StatusCode code;
  const char* text;
};

Advice AdviceFor(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {absl::StatusCode::kResourceExhausted,
              "other processes may hold the device's memory (nvidia-smi), or the job needs more "
              "sharding or offloading"};
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return {
          absl::StatusCode::kFailedPrecondition,
          "there is no driver, or it is older than the CUDA runtime that Strata was built with: "
          "install or update it (nvidia-smi tells its version)"};
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInitializationError:
      return {absl::StatusCode::kFailedPrecondition,
              "check that nvidia-smi lists the device and that CUDA_VISIBLE_DEVICES names it"};
    case cudaErrorNoKernelImageForDevice:
      return {absl::StatusCode::kFailedPrecondition,
              "Strata was built for other devices: build with --//bazel:cuda_architectures"};
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
      return {absl::StatusCode::kUnavailable,
              "the device is at fault, and so are its results since the last step: take the node "
              "out of service and restart the job from its checkpoint"};
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
    case cudaErrorAssert:
    case cudaErrorIllegalInstruction:
    case cudaErrorLaunchTimeout:
      return {absl::StatusCode::kInternal,
              "an operation that was queued earlier failed; this process cannot use the device any "
              "more, and a restarted one can"};
    default:
      return {absl::StatusCode::kInternal, "restart the process"};
  }
}

}  // namespace

absl::Status CudaStatus(absl::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  const Advice advice = AdviceFor(error);
  return absl::Status(advice.code, absl::StrCat(what, ": ", cudaGetErrorName(error), " (",
                                                cudaGetErrorString(error), "); ", advice.text));
}

}  // namespace strata::device
