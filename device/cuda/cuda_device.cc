#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/lane_stream.h"
#include "device/cuda/stream_values.h"
#include "device/host_pages.h"

namespace strata::device {
namespace {

constexpr int kNumbers = 256, kNumberStride = 64 / sizeof(uint32_t);

}  // namespace

CudaDevice::CudaDevice() = default;

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(int ordinal) {
  // Streams that share a queue of the hardware wait for each other: the least harm is done with as
  // many queues as there can be. Read when the process's first context is made.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  std::unique_ptr<CudaDevice> device(new CudaDevice());
  RETURN_IF_ERROR(device->Open(ordinal));
  return device;
}

absl::Status CudaDevice::Open(int ordinal) {
  ordinal_ = ordinal;
  RETURN_IF_ERROR(
      CudaStatus(absl::StrCat("opening CUDA device ", ordinal), cudaSetDevice(ordinal)));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(
      CudaStatus("asking what the device is", cudaGetDeviceProperties(&properties, ordinal)));
  name_ = properties.name;
  capability_ = 10 * properties.major + properties.minor;
  ASSIGN_OR_RETURN(StreamValues values, StreamValues::Find());
  values_ = std::make_unique<StreamValues>(values);
  RETURN_IF_ERROR(
      CudaStatus("creating a stream", cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking)));
  constexpr size_t kBytes = size_t{kNumbers} * kNumberStride * sizeof(uint32_t);
  RETURN_IF_ERROR(CudaStatus("pinned memory for numbers",
                             cudaHostAlloc(reinterpret_cast<void**>(&numbers_), kBytes,
                                           cudaHostAllocMapped | cudaHostAllocPortable)));
  std::fill_n(numbers_, kNumbers * kNumberStride, 0u);
  return absl::OkStatus();
}

CudaDevice::~CudaDevice() {
  lanes_.Stop();
  for (const auto& stream : lane_streams_) stream->LetFollowerGo();
  // Host functions use lanes and streams. Errors have been told already, or concern nobody.
  for (const auto& stream : streams_) cudaStreamSynchronize(stream->handle());
  streams_.clear();
  lane_streams_.clear();
  if (own_ != nullptr) cudaStreamDestroy(own_);
  cudaFreeHost(numbers_);
}

absl::StatusOr<Stream*> CudaDevice::CreateStream(Service) { return CreateQueue(); }

absl::StatusOr<int64_t> CudaDevice::UsedBytes() {
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(CudaStatus("used memory", cudaMemGetInfo(&free, &total)));
  return static_cast<int64_t>(total - free);
}

absl::StatusOr<QueueStream*> CudaDevice::CreateQueue() {
  ASSIGN_OR_RETURN(uint32_t* const counter, NewNumber());
  ASSIGN_OR_RETURN(streams_.emplace_back(), CudaStream::Create(values_.get(), counter));
  return streams_.back().get();
}

absl::StatusOr<std::unique_ptr<TimeMark>> CudaDevice::CreateTimeMark() {
  return CudaTimeMark::Create();
}

absl::StatusOr<double> CudaDevice::SecondsBetween(const TimeMark& begin, const TimeMark& end) {
  float milliseconds = 0;
  RETURN_IF_ERROR(CudaStatus(
      "asking for a time",
      cudaEventElapsedTime(&milliseconds, static_cast<const CudaTimeMark&>(begin).handle(),
                           static_cast<const CudaTimeMark&>(end).handle())));
  return 1e-3 * static_cast<double>(milliseconds);
}

absl::StatusOr<Stream*> CudaDevice::Adopt(CpuStream* stream) {
  ASSIGN_OR_RETURN(uint32_t* const ended, NewNumber());
  ASSIGN_OR_RETURN(lane_streams_.emplace_back(),
                   LaneStream::Create(&lanes_, stream, values_.get(), ended));
  return lane_streams_.back().get();
}

absl::StatusOr<uint32_t*> CudaDevice::NewNumber() {
  if (used_numbers_ == kNumbers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a CUDA device has ", kNumbers, " streams at most: make another device"));
  }
  return numbers_ + kNumberStride * used_numbers_++;
}

absl::StatusOr<std::unique_ptr<Event>> CudaDevice::CreateEvent() {
  return CudaEvent::Create(&lanes_);
}

absl::StatusOr<std::byte*> CudaDevice::Reserve(Memory memory, int64_t bytes) {
  if (memory == Memory::kHost) return ReservePages(bytes);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) {
    return CudaStatus(absl::StrCat("no room for an arena of ", bytes, " bytes (",
                                   common::FormatBytes(bytes), ") on the device"),
                      error);
  }
  return static_cast<std::byte*>(data);
}

absl::Status CudaDevice::Commit(Memory memory, std::byte* data, int64_t bytes) {
  if (memory == Memory::kDevice) return Zero(data, bytes);
  RETURN_IF_ERROR(CommitPages(data, bytes));
  return Pin(data, bytes);
}

absl::Status CudaDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(own_mutex_);
  const std::string what = absl::StrCat("a copy of ", bytes, " bytes");
  RETURN_IF_ERROR(CudaStatus(what, cudaSetDevice(ordinal_)));
  RETURN_IF_ERROR(CudaStatus(what, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, own_)));
  return CudaStatus(what, cudaStreamSynchronize(own_));
}

absl::Status CudaDevice::Zero(std::byte* data, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(own_mutex_);
  RETURN_IF_ERROR(CudaStatus("zeroing an arena", cudaMemsetAsync(data, 0, bytes, own_)));
  return CudaStatus("zeroing an arena", cudaStreamSynchronize(own_));
}

absl::Status CudaDevice::Pin(std::byte* data, int64_t bytes) {
  RETURN_IF_ERROR(CudaStatus(
      absl::StrCat("pinning an arena of ", bytes, " bytes (", common::FormatBytes(bytes), ")"),
      cudaHostRegister(data, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable)));
  pinned_.insert(data);
  void* on_device = nullptr;
  RETURN_IF_ERROR(CudaStatus("looking for an arena's place on the device",
                             cudaHostGetDevicePointer(&on_device, data, 0)));
  if (on_device == data) return absl::OkStatus();
  return absl::UnimplementedError(
      "the device reaches host memory at other addresses than the host: Strata needs a machine "
      "with "
      "unified addresses for registered memory");
}

void CudaDevice::Release(Memory memory, std::byte* data, int64_t bytes) {
  if (memory == Memory::kDevice) {
    cudaFree(data);
    return;
  }
  if (pinned_.erase(data) > 0) cudaHostUnregister(data);
  ReleasePages(data, bytes);
}

}  // namespace strata::device
