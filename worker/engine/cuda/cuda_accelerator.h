// A CUDA device as an engine's accelerator.
#ifndef STRATA_WORKER_ENGINE_CUDA_CUDA_ACCELERATOR_H_
#define STRATA_WORKER_ENGINE_CUDA_CUDA_ACCELERATOR_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_unified_memory.h"
#include "kernels/cuda/attention_library.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/cuda/launching.h"

namespace strata::worker {

class CudaAccelerator final : public Accelerator {
 public:
  // Of the device `ordinal`, for the engines of the calling thread, which it outlives. Errors:
  // CudaDevice::Create's.
  // `communicator`: of this device, between the ranks of the world; null: alone.
  static absl::StatusOr<std::unique_ptr<CudaAccelerator>> Create(
      int ordinal, std::unique_ptr<collectives::NcclCommunicator> communicator = nullptr);
  ~CudaAccelerator() override;

  device::CudaDevice& device() override { return *device_; }
  device::CudaUnifiedMemory& unified() override { return unified_; }
  int graph_actions() const override { return graph_actions_; }
  // Before engines are made for it.
  void set_graph_actions(int actions) { graph_actions_ = actions; }
  // Likewise: of this device, asked for attention before our kernels; or why there is none, to be
  // told.
  void set_attention(std::unique_ptr<kernels::cuda::AttentionLibrary> attention) {
    attention_ = std::move(attention);
  }
  void set_why_no_attention_library(std::string why) { why_no_library_ = std::move(why); }
  std::string Remark() const override;
  absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                                 const OpEnvironment& environment, const LaunchSite& site) override;
  bool Joins(program::OpKind first, program::OpKind second) const override;
  BoundOp BindJoined(const OpCall& first, const OpCall& second, const OpEnvironment& environment,
                     const LaunchSite& site) override;
  bool communicates() const override { return communicator_ != nullptr; }
  absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int> world_ranks) override {
    return communicator_->CreateGroup(world_ranks);
  }
  absl::StatusOr<BoundOp> BindOperation(const collectives::Operation& operation,
                                        const LaunchSite& site) override;
  absl::Status CheckCommunication() override;
  void AbortCommunication(absl::Status status) override;
  absl::Status CloseCommunication(absl::Duration at_most) override;
  absl::StatusOr<BoundOp> BindCopy(std::byte* to, const std::byte* from, int64_t bytes,
                                   const LaunchSite& site) override;

 private:
  CudaAccelerator(int ordinal, std::unique_ptr<device::CudaDevice> device,
                  std::unique_ptr<kernels::cuda::MatmulLibrary> products,
                  std::unique_ptr<collectives::NcclCommunicator> communicator);
  absl::StatusOr<std::byte*> ScratchOf(const device::QueueStream* stream);

  const std::unique_ptr<device::CudaDevice> device_;
  device::CudaUnifiedMemory unified_;
  const std::unique_ptr<kernels::cuda::MatmulLibrary> products_;
  const std::unique_ptr<collectives::NcclCommunicator> communicator_;
  std::unique_ptr<kernels::cuda::AttentionLibrary> attention_;
  std::string why_no_library_;
  std::atomic<bool> closes_{false};
  std::map<const device::QueueStream*, std::byte*> scratch_;
  int graph_actions_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_CUDA_ACCELERATOR_H_
