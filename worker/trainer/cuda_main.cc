// strata-trainer with CUDA: for jobs of `resources.device: gpu`. Linked with the real runtime, and
// with the stand-in, which runs the same kernels on the CPU, to prove them.
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/trainer/trainer_main.h"

#ifdef STRATA_CUDA_STANDIN
#include "device/standin/standin.h"
#endif

namespace strata::worker {
namespace {

// Of a graph (Accelerator::graph_actions): a launch costs as much as those of two or three kernels.
constexpr int kGraphActions = 4;

absl::StatusOr<int> GraphActions() {
  const char* const text = std::getenv("STRATA_GPU_GRAPHS");
  if (text == nullptr) return kGraphActions;
  int actions = 0;
  if (absl::SimpleAtoi(text, &actions) && actions >= 0) return actions;
  return absl::InvalidArgumentError(absl::StrCat(
      "STRATA_GPU_GRAPHS=", text,
      " is not a number of actions: 0 goes without graphs, none set means ", kGraphActions));
}

absl::StatusOr<NamedAccelerator> Make(int ordinal) {
  ASSIGN_OR_RETURN(const int graph_actions, GraphActions());
  ASSIGN_OR_RETURN(auto accelerator, CudaAccelerator::Create(ordinal));
  accelerator->set_graph_actions(graph_actions);
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
