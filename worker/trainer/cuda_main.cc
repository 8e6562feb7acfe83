// strata-trainer with CUDA: for jobs of `resources.device: gpu`. Linked with the real runtime, and
// with the stand-in, which runs the same kernels on the CPU, to prove them.
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/trainer/trainer_main.h"

#ifdef STRATA_CUDA_STANDIN
#include "device/standin/standin.h"
#endif

namespace strata::worker {
namespace {

absl::StatusOr<NamedAccelerator> Make(int ordinal) {
  ASSIGN_OR_RETURN(auto accelerator, CudaAccelerator::Create(ordinal));
  const std::string name = accelerator->device().name();
  return NamedAccelerator{std::move(accelerator), name};
}

}  // namespace
}  // namespace strata::worker

int main(int argc, char** argv) {
#ifdef STRATA_CUDA_STANDIN
  strata::standin::Reset({.fail_at_finding = true, .device_bytes = int64_t{4} << 30});
#endif
  return strata::worker::TrainerMain(argc, argv, {.make_accelerator = &strata::worker::Make});
}
