// Streams that wait for values in memory, and write them: the driver's calls, found by name.
#include <cuda.h>

#include <string>

#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

CUresult ResultOf(cudaError_t error) { return static_cast<CUresult>(error); }

// `at`, in pinned memory, on a stream that does not record.
template <typename Body>
CUresult OnValue(const char* name, const char* what, CUstream handle, CUdeviceptr at, Body&& body) {
  return ResultOf(Call(name, InCapture::kAllowed, [&](Runtime& runtime) -> cudaError_t {
    Stream* const stream = runtime.Find(handle, what);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    const Region* const region = runtime.machine().memory.Find(at);
    const bool pinned = region != nullptr && region->kind != Region::Kind::kDevice;
    if (!pinned || !region->Holds(at, 4) || at % 4 != 0) return cudaErrorInvalidValue;
    return body(runtime, *stream, reinterpret_cast<uint32_t*>(at));
  }));
}

CUresult WaitValue32(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  return OnValue("cuStreamWaitValue32", "a wait for a value", handle, at,
                 [&](Runtime& runtime, Stream& stream, const uint32_t* place) {
                   if (flags != CU_STREAM_WAIT_VALUE_GEQ) return cudaErrorNotSupported;
                   runtime.streams().WaitForValue(stream, {place, value});
                   return cudaSuccess;
                 });
}

CUresult WriteValue32(CUstream handle, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  return OnValue("cuStreamWriteValue32", "a write of a value", handle, at,
                 [&](Runtime& runtime, Stream& stream, uint32_t* place) {
                   if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return cudaErrorNotSupported;
                   runtime.Enqueue(stream, "a write of a value", [place, value](OperationId) {
                     __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
                   });
                   runtime.streams().NoteWriter(place, value, runtime.streams().End(stream));
                   return cudaSuccess;
                 });
}

}  // namespace
}  // namespace strata::standin

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned,
    unsigned long long,  // NOLINT(runtime/int): CUDA's declaration
    cudaDriverEntryPointQueryResult* result) {
  return strata::standin::Call(
      "cudaGetDriverEntryPointByVersion", strata::standin::InCapture::kAllowed,
      [&](strata::standin::Runtime&) {
        const std::string name = symbol;
        *function = nullptr;
        if (name == "cuStreamWaitValue32") {
          *function = reinterpret_cast<void*>(&strata::standin::WaitValue32);
        }
        if (name == "cuStreamWriteValue32") {
          *function = reinterpret_cast<void*>(&strata::standin::WriteValue32);
        }
        const bool found = *function != nullptr;
        if (result != nullptr) {
          *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
        }
        return found ? cudaSuccess : cudaErrorSymbolNotFound;
      });
}

}  // extern "C"
