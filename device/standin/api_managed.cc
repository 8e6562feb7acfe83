// Managed memory: allocation, prefetches, advice.
#include "device/standin/access.h"
#include "device/standin/managed.h"
#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Null: these bytes are not all of one managed region.
Region* FindManaged(Runtime& runtime, const void* pointer, size_t bytes) {
  Region* const region = runtime.machine().memory.Find(AddressOf(pointer));
  const bool is_managed = region != nullptr && region->pages != nullptr && bytes > 0 &&
                          region->Holds(AddressOf(pointer), bytes);
  return is_managed ? region : nullptr;
}

bool Exists(const Runtime& runtime, const cudaMemLocation& location) {
  if (location.type == cudaMemLocationTypeHost) return true;
  return location.type == cudaMemLocationTypeDevice && location.id >= 0 &&
         location.id < runtime.machine().options.device_count;
}

cudaError_t PrefetchOn(Runtime& runtime, const void* pointer, size_t bytes,
                       const cudaMemLocation& location, Stream& stream) {
  if (FindManaged(runtime, pointer, bytes) == nullptr || !Exists(runtime, location)) {
    return cudaErrorInvalidValue;
  }
  if (stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  const bool to_host = location.type == cudaMemLocationTypeHost;
  runtime.Enqueue(stream, to_host ? "a prefetch to the host" : "a prefetch to the device",
                  [&runtime, pointer, bytes, to = to_host ? kOnHost : location.id](OperationId id) {
                    Region* const region = FindManaged(runtime, pointer, bytes);
                    if (region == nullptr) return;  // freed, which waits for all: never
                    MovePages(runtime.machine(), *region, AddressOf(pointer), bytes, to,
                              AccessorOf(id));
                  });
  return cudaSuccess;
}

}  // namespace
}  // namespace strata::standin

using strata::standin::Call;
using strata::standin::InCapture;
using strata::standin::Region;
using strata::standin::Runtime;
using strata::standin::Stream;

extern "C" {

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return Call("cudaMallocManaged", InCapture::kForbidden, [&](Runtime& runtime) {
    *pointer = nullptr;
    if (!runtime.machine().options.managed_memory) return cudaErrorNotSupported;
    if (bytes == 0 || flags != cudaMemAttachGlobal) return cudaErrorInvalidValue;
    const Region* const region = runtime.machine().memory.AllocateManaged(bytes);
    if (region == nullptr) return cudaErrorMemoryAllocation;
    *pointer = reinterpret_cast<void*>(region->begin);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                 unsigned flags, cudaStream_t handle) {
  return Call("cudaMemPrefetchAsync", InCapture::kAllowed, [&](Runtime& runtime) -> cudaError_t {
    Stream* const stream = runtime.Find(handle, "a prefetch");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    return strata::standin::PrefetchOn(runtime, pointer, bytes, location, *stream);
  });
}

// Advice changes speed, not what is right: where pages are is up to prefetches. Of what the
// stand-in does not model it says so.
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return Call("cudaMemAdvise", InCapture::kAllowed, [&](Runtime& runtime) {
    if (strata::standin::FindManaged(runtime, pointer, bytes) == nullptr ||
        !strata::standin::Exists(runtime, location)) {
      return cudaErrorInvalidValue;
    }
    return advice == cudaMemAdviseSetPreferredLocation ? cudaSuccess : cudaErrorNotSupported;
  });
}

}  // extern "C"
