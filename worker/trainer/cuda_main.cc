// strata-trainer with CUDA: for jobs of `resources.device: gpu`. Linked with the real runtime, and
// with the stand-in, which runs the same kernels on the CPU, to prove them.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/nccl/nccl_communicator.h"
#include "common/status_macros.h"
#include "kernels/cuda/cudnn/cudnn_library.h"
#include "topology/device_kind.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/trainer/attention_choice.h"
#include "worker/trainer/trainer_main.h"

#ifdef STRATA_CUDA_STANDIN
#include "device/standin/standin.h"
#endif
#ifdef STRATA_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.h"
#include "planner/fit/library_attention.h"
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

#ifdef STRATA_CUDNN
constexpr bool kHasCudnn = true;
using kernels::cuda::OpenCudnnAttention;
static_assert(kernels::cuda::kCudnnWorkspaceBytes <= planner::kLibraryAttentionBytes);
#else
constexpr bool kHasCudnn = false;
absl::StatusOr<std::unique_ptr<kernels::cuda::AttentionLibrary>> OpenCudnnAttention() {
  return absl::UnimplementedError("cuDNN: not built");  // and therefore not chosen
}
#endif

// Gives the device cuDNN's attention, where that is the choice.
absl::Status SetAttention(CudaAccelerator& accelerator) {
  const auto version = [] { return kernels::cuda::CudnnVersion(); };
  const CudnnFacts facts{
      .built = kHasCudnn, .capability = accelerator.device().capability(), .version = version};
  ASSIGN_OR_RETURN(AttentionChoice choice, ChooseAttention(std::getenv("STRATA_GPU_CUDNN"), facts));
  if (choice.cudnn) {
    auto library = OpenCudnnAttention();
    if (library.ok()) {
      accelerator.set_attention(*std::move(library));
      return absl::OkStatus();
    }
    if (choice.demanded) return library.status();
    choice.why = std::string(library.status().message());
  }
#ifndef STRATA_CUDA_STANDIN  // which has no cuDNN to choose
  accelerator.set_why_no_attention_library(std::move(choice.why));
#endif
  return absl::OkStatus();
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
  constexpr bool kStandin = true;
  strata::standin::Reset({.fail_at_finding = true,
                          .device_count = 64,  // of the machine's ranks, a process each
                          .ranks_are_processes = true,
                          .device_bytes = int64_t{4} << 30});
#else
  constexpr bool kStandin = false;
#endif
  return strata::worker::TrainerMain(
      argc, argv, {.make_accelerator = &strata::worker::Make, .standin = kStandin});
}
