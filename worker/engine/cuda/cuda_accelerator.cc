#include "worker/engine/cuda/cuda_accelerator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/decided_copy.h"
#include "kernels/cuda/matmul.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

using program::OpKind;

struct TableEntry {
  OpKind kind;
  Launcher launch;
  bool decides = false;  // whether its kernels look at the site's scalar
};
constexpr TableEntry kTable[] = {
    {OpKind::kMatMul, LaunchMatMul},
    {OpKind::kEmbeddingForward, LaunchEmbeddingForward},
    {OpKind::kEmbeddingBackward, LaunchEmbeddingBackward},
    {OpKind::kRmsNormForward, LaunchRmsNormForward},
    {OpKind::kAddRmsNormForward, LaunchAddRmsNormForward},
    {OpKind::kRmsNormReplay, LaunchRmsNormReplay},
    {OpKind::kRmsNormBackward, LaunchRmsNormBackward},
    {OpKind::kLayerNormForward, LaunchLayerNormForward},
    {OpKind::kAddLayerNormForward, LaunchAddLayerNormForward},
    {OpKind::kLayerNormReplay, LaunchLayerNormReplay},
    {OpKind::kLayerNormBackward, LaunchLayerNormBackward},
    {OpKind::kAttentionForward, LaunchAttentionForward},
    {OpKind::kAttentionBackward, LaunchAttentionBackward},
    {OpKind::kAttentionDecode, LaunchAttentionDecode},
    {OpKind::kAddBias, LaunchAddBias},
    {OpKind::kBiasGradient, LaunchBiasGradient},
    {OpKind::kActivate, LaunchActivate},
    {OpKind::kActivateBackward, LaunchActivateBackward},
    {OpKind::kHeadNormForward, LaunchHeadNormForward},
    {OpKind::kHeadNormReplay, LaunchHeadNormReplay},
    {OpKind::kHeadNormBackward, LaunchHeadNormBackward},
    {OpKind::kAddPositions, LaunchAddPositions},
    {OpKind::kPositionsGradient, LaunchPositionsGradient},
    {OpKind::kMoveBlocks, LaunchMoveBlocks},
    {OpKind::kOrderRows, LaunchOrderRows},
    {OpKind::kTakeHeads, LaunchTakeHeads},
    {OpKind::kAddHeads, LaunchAddHeads},
    {OpKind::kCrossEntropyFinish, LaunchCrossEntropyFinish},
    {OpKind::kCrossEntropyStatistics, LaunchCrossEntropyStatistics},
    {OpKind::kAttentionDelta, LaunchAttentionDelta},
    {OpKind::kAttentionPart, LaunchAttentionPart},
    {OpKind::kAttentionPartBackward, LaunchAttentionPartBackward},
    {OpKind::kDequantise, LaunchDequantise},
    {OpKind::kDequantiseRows, LaunchDequantiseRows},
    {OpKind::kRope, LaunchRope},
    {OpKind::kSwigluForward, LaunchSwigluForward},
    {OpKind::kSwigluBackward, LaunchSwigluBackward},
    {OpKind::kCrossEntropy, LaunchCrossEntropy},
    {OpKind::kCrossEntropyLoss, LaunchCrossEntropyLoss},
    {OpKind::kAdd, LaunchAdd},
    {OpKind::kCopy, LaunchCopy},
    {OpKind::kZero, LaunchZero},
    {OpKind::kScale, LaunchScale},
    {OpKind::kSoftcap, LaunchSoftcap},
    {OpKind::kSumSquares, LaunchSumSquares},
    {OpKind::kFinishStep, LaunchFinishStep},
    {OpKind::kConvert, LaunchConvert},
    {.kind = OpKind::kAdamW, .launch = LaunchAdamW, .decides = true},
    {.kind = OpKind::kAdamWFixUp, .launch = LaunchAdamWFixUp, .decides = true},
    {.kind = OpKind::kMixedAdamW, .launch = LaunchMixedAdamW, .decides = true},
    {.kind = OpKind::kSgd, .launch = LaunchSgd, .decides = true},
};

const TableEntry* Find(OpKind kind) {
  const auto* entry = std::find_if(std::begin(kTable), std::end(kTable),
                                   [kind](const TableEntry& entry) { return entry.kind == kind; });
  return entry == std::end(kTable) ? nullptr : entry;
}

cudaStream_t HandleOf(const LaunchSite& site) {
  return static_cast<device::CudaStream*>(site.stream)->handle();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaAccelerator>> CudaAccelerator::Create(
    int ordinal, std::unique_ptr<collectives::NcclCommunicator> communicator) {
  ASSIGN_OR_RETURN(std::unique_ptr<device::CudaDevice> device, device::CudaDevice::Create(ordinal));
  ASSIGN_OR_RETURN(std::unique_ptr<kernels::cuda::MatmulLibrary> products,
                   kernels::cuda::MatmulLibrary::Create());
  return std::unique_ptr<CudaAccelerator>(new CudaAccelerator(
      ordinal, std::move(device), std::move(products), std::move(communicator)));
}

CudaAccelerator::CudaAccelerator(int ordinal, std::unique_ptr<device::CudaDevice> device,
                                 std::unique_ptr<kernels::cuda::MatmulLibrary> products,
                                 std::unique_ptr<collectives::NcclCommunicator> communicator)
    : device_(std::move(device)),
      unified_(ordinal),
      products_(std::move(products)),
      communicator_(std::move(communicator)) {}

CudaAccelerator::~CudaAccelerator() {
  for (const auto& [stream, scratch] : scratch_) {
    device_->Release(device::Memory::kDevice, scratch, kStreamScratchBytes);
  }
}

std::string CudaAccelerator::Remark() const {
  std::string why = why_no_library_;
  if (attention_ != nullptr) {
    std::string summary = attention_->Summary();
    if (!summary.empty()) return summary;
    why = "the library has none of documents, parts of sequences and single tokens";
  }
  return why.empty() ? "" : absl::StrCat("attention by Strata's kernels (", why, ")");
}

absl::StatusOr<std::byte*> CudaAccelerator::ScratchOf(const device::QueueStream* stream) {
  const auto known = scratch_.find(stream);
  if (known != scratch_.end()) return known->second;
  ASSIGN_OR_RETURN(std::byte* const scratch,
                   device_->Reserve(device::Memory::kDevice, kStreamScratchBytes));
  return scratch_[stream] = scratch;
}

absl::StatusOr<BoundOp> CudaAccelerator::BindOp(const program::Op& op,
                                                absl::Span<const BoundOperand> operands,
                                                const OpEnvironment& environment,
                                                const LaunchSite& site) {
  const TableEntry* const entry = Find(op.kind);
  if (entry == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the device has no kernel for ", Name(op.kind)));
  }
  if (site.decides != nullptr && !entry->decides) {
    return absl::UnimplementedError(
        absl::StrCat("the device cannot decide whether ", Name(op.kind), " takes place"));
  }
  ASSIGN_OR_RETURN(std::byte* const scratch, ScratchOf(site.stream));
  OpReader reader(op, operands, environment);
  BoundOp bound = entry->launch(reader, {.stream = HandleOf(site),
                                         .site = site,
                                         .products = products_.get(),
                                         .attention = attention_.get(),
                                         .scratch = scratch});
  RETURN_IF_ERROR(reader.status());
  return bound;
}

bool CudaAccelerator::Joins(OpKind first, OpKind second) const {
  return first == OpKind::kMatMul && second == OpKind::kAddBias;
}

BoundOp CudaAccelerator::BindJoined(const OpCall& first, const OpCall& second,
                                    const OpEnvironment& environment, const LaunchSite& site) {
  OpReader product(first.op, first.operands, environment);
  OpReader bias(second.op, second.operands, environment);
  return LaunchMatMulWithBias(
      product, bias, {.stream = HandleOf(site), .site = site, .products = products_.get()});
}

absl::StatusOr<BoundOp> CudaAccelerator::BindOperation(const collectives::Operation& operation,
                                                       const LaunchSite& site) {
  return BoundOp([communicator = communicator_.get(), stream = HandleOf(site), operation] {
    return communicator->Issue(operation, stream);
  });
}

absl::Status CudaAccelerator::CheckCommunication() {
  return communicator_ == nullptr || closes_ ? absl::OkStatus() : communicator_->Check();
}

void CudaAccelerator::AbortCommunication(absl::Status status) {
  if (communicator_ != nullptr) communicator_->Abort(std::move(status));
}

absl::Status CudaAccelerator::CloseCommunication(absl::Duration at_most) {
  if (communicator_ == nullptr) return absl::OkStatus();
  closes_ = true;
  return communicator_->Close(at_most);
}

absl::StatusOr<BoundOp> CudaAccelerator::BindCopy(std::byte* to, const std::byte* from,
                                                  int64_t bytes, const LaunchSite& site) {
  return BoundOp([stream = HandleOf(site), site, bytes, from, to] {
    return kernels::cuda::DecidedCopy(stream, site.decides, site.negated, bytes, from, to);
  });
}

}  // namespace strata::worker
