#include "device/cuda/cuda_stream.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/stream_values.h"

namespace strata::device {
namespace {

class CudaGraph final : public QueueGraph {
 public:
  explicit CudaGraph(cudaGraphExec_t handle) : handle_(handle) {}
  ~CudaGraph() override { cudaGraphExecDestroy(handle_); }
  cudaGraphExec_t handle() const { return handle_; }

 private:
  const cudaGraphExec_t handle_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create(CpuDevice* lanes) {
  cudaEvent_t handle = nullptr;
  // A thread that waits for one sleeps: on the host, updates need the processor.
  constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
  RETURN_IF_ERROR(CudaStatus("creating an event", cudaEventCreateWithFlags(&handle, kFlags)));
  return std::unique_ptr<CudaEvent>(new CudaEvent(lanes, handle));
}

CudaEvent::~CudaEvent() { cudaEventDestroy(handle_); }

absl::StatusOr<bool> CudaEvent::Reached() const {
  lanes_->Announce();
  const cudaError_t error = cudaEventQuery(handle_);
  if (error == cudaErrorNotReady) return false;
  RETURN_IF_ERROR(CudaStatus("asking after an event", error));
  return true;
}

absl::Status CudaEvent::Synchronize() {
  lanes_->Announce();
  return CudaStatus("waiting for an event", cudaEventSynchronize(handle_));
}

absl::StatusOr<std::unique_ptr<CudaTimeMark>> CudaTimeMark::Create() {
  cudaEvent_t handle = nullptr;
  RETURN_IF_ERROR(CudaStatus("creating a time mark", cudaEventCreate(&handle)));
  return std::unique_ptr<CudaTimeMark>(new CudaTimeMark(handle));
}

CudaTimeMark::~CudaTimeMark() { cudaEventDestroy(handle_); }

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(const StreamValues* values,
                                                               uint32_t* counter) {
  cudaStream_t handle = nullptr;
  RETURN_IF_ERROR(
      CudaStatus("creating a stream", cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)));
  return std::unique_ptr<CudaStream>(new CudaStream(values, counter, handle));
}

CudaStream::~CudaStream() { cudaStreamDestroy(handle_); }

absl::Status CudaStream::Wait(const Event& event) {
  const auto& place = static_cast<const CudaEvent&>(event);
  return CudaStatus("a stream's wait for another",
                    cudaStreamWaitEvent(handle_, place.handle_, cudaEventWaitDefault));
}

absl::Status CudaStream::Record(Event& event) {
  auto& place = static_cast<CudaEvent&>(event);
  place.place_ = CudaEvent::Place::kOnQueue;
  return CudaStatus("recording an event", cudaEventRecord(place.handle_, handle_));
}

absl::Status CudaStream::Launch(HostFunction function) {
  if (launched_ - ran_.load(std::memory_order_acquire) >= kCapacity) {
    RETURN_IF_ERROR(CudaStatus("waiting for host functions", cudaStreamSynchronize(handle_)));
  }
  Call& call = calls_[launched_++ % kCapacity];
  call = {function, this};
  return CudaStatus("a host function", cudaLaunchHostFunc(handle_, &CudaStream::Run, &call));
}

void CUDART_CB CudaStream::Run(void* call) {
  const auto& [function, stream] = *static_cast<const Call*>(call);
  std::atomic<int64_t>& ran = stream->ran_;
  function.call(function.object, function.argument);
  ran.fetch_add(1, std::memory_order_release);
}

absl::Status CudaStream::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle_);
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(absl::StrCat("a copy of ", bytes, " bytes"), error);
}

absl::Status CudaStream::Count(uint32_t actions) {
  return values_->Write(handle_, counter_, actions);
}

// Other threads may copy at the same time (CudaDevice::CopyNow), which a global capture forbids.
absl::Status CudaStream::BeginCapture() {
  return CudaStatus("a capture", cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal));
}

absl::StatusOr<std::unique_ptr<QueueGraph>> CudaStream::EndCapture() {
  cudaGraph_t graph = nullptr;
  RETURN_IF_ERROR(CudaStatus("the end of a capture", cudaStreamEndCapture(handle_, &graph)));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  RETURN_IF_ERROR(CudaStatus("making a graph of what was captured", error));
  return std::make_unique<CudaGraph>(executable);
}

absl::Status CudaStream::LaunchGraph(const QueueGraph& graph) {
  return CudaStatus("a graph's launch",
                    cudaGraphLaunch(static_cast<const CudaGraph&>(graph).handle(), handle_));
}

absl::Status CudaStream::Mark(TimeMark& mark) {
  return CudaStatus("marking a time",
                    cudaEventRecord(static_cast<CudaTimeMark&>(mark).handle(), handle_));
}

uint32_t CudaStream::counted() const {
  return std::atomic_ref<uint32_t>(*counter_).load(std::memory_order_acquire);
}

}  // namespace strata::device
