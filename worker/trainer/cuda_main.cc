// strata-trainer with CUDA: for jobs of `resources.device: gpu`. Linked with the real runtime, and
// with the stand-in, which runs the same kernels on the CPU, to prove them.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/nccl/nccl_communicator.h"
#include "common/status_macros.h"
#include "topology/device_kind.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/trainer/trainer_main.h"

#ifdef STRATA_CUDA_STANDIN
#include "device/standin/standin.h"
#endif
#ifdef STRATA_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.h"
#endif

namespace strata::worker {
namespace {

// Groups' ids, which are secrets, travel between ranks that have proven themselves to each other.
absl::StatusOr<std::unique_ptr<collectives::NcclCommunicator>> MakeCommunicator(
    int ordinal, collectives::Communicator* ranks) {
  if (ranks == nullptr) return nullptr;
  return collectives::NcclCommunicator::Create({.rank = ranks->rank(),
                                                .size = ranks->size(),
                                                .device = ordinal,
                                                .share = collectives::ShareOver(ranks)});
}

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

// Gives the device cuDNN's attention, where the job's environment asks for it.
absl::Status SetAttention([[maybe_unused]] CudaAccelerator& accelerator) {
  const char* const text = std::getenv("STRATA_GPU_CUDNN");
  const absl::string_view wished = text == nullptr ? "0" : text;
  if (wished == "0") return absl::OkStatus();
  if (wished != "1") {
    return absl::InvalidArgumentError(absl::StrCat(
        "STRATA_GPU_CUDNN=", wished, " is neither 0 nor 1: 1 takes cuDNN's attention"));
  }
#ifdef STRATA_CUDNN
  ASSIGN_OR_RETURN(auto library, kernels::cuda::OpenCudnnAttention());
  accelerator.set_attention(std::move(library));
  return absl::OkStatus();
#else
  return absl::FailedPreconditionError(
      "STRATA_GPU_CUDNN=1: this trainer was built without cuDNN — ./dev build --cuda has it; or "
      "unset it");
#endif
}

absl::StatusOr<NamedAccelerator> Make(int ordinal, collectives::Communicator* ranks) {
  ASSIGN_OR_RETURN(const int graph_actions, GraphActions());
  ASSIGN_OR_RETURN(auto communicator, MakeCommunicator(ordinal, ranks));
  ASSIGN_OR_RETURN(auto accelerator, CudaAccelerator::Create(ordinal, std::move(communicator)));
  accelerator->set_graph_actions(graph_actions);
  RETURN_IF_ERROR(SetAttention(*accelerator));
  const std::string name(accelerator->device().name());
#ifdef STRATA_CUDA_STANDIN
  return NamedAccelerator{std::move(accelerator), name, ""};
#else
  return NamedAccelerator{std::move(accelerator), name, topology::KindOfProduct(name)};
#endif
}

}  // namespace
}  // namespace strata::worker

int main(int argc, char** argv) {
#ifdef STRATA_CUDA_STANDIN
  strata::standin::Reset({.fail_at_finding = true,
                          .device_count = 64,  // of the machine's ranks, a process each
                          .ranks_are_processes = true,
                          .device_bytes = int64_t{4} << 30});
#endif
  return strata::worker::TrainerMain(argc, argv, {.make_accelerator = &strata::worker::Make});
}
