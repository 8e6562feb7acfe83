// The devices themselves, which say that they are of compute capability 9.0.
#include <algorithm>
#include <cstring>

#include "device/standin/runtime.h"

using strata::standin::Call;
using strata::standin::CurrentDevice;
using strata::standin::InCapture;
using strata::standin::Runtime;

namespace {

// Figures of an H100 SXM as the CUDA C++ Programming Guide's table of compute capability 9.0 has
// them; what a kernel's shape may depend on.
cudaError_t AttributeOf(const Runtime& runtime, cudaDeviceAttr attribute, int* value) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
      *value = runtime.machine().options.managed_memory ? 1 : 0;
      break;
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
      *value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

bool Exists(const Runtime& runtime, int device) {
  return device >= 0 && device < runtime.machine().options.device_count;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return Call("cudaGetDeviceCount", InCapture::kAllowed, [&](Runtime& runtime) {
    *count = runtime.machine().options.device_count;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call("cudaGetDevice", InCapture::kAllowed, [&](Runtime&) {
    *device = CurrentDevice();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Call("cudaSetDevice", InCapture::kAllowed, [&](Runtime& runtime) {
    if (!Exists(runtime, device)) return cudaErrorInvalidDevice;
    CurrentDevice() = device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call("cudaDeviceSynchronize", InCapture::kForbidden, [&](Runtime& runtime) {
    runtime.streams().RunAll();
    return runtime.faults().sticky();
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Call("cudaDeviceGetAttribute", InCapture::kAllowed, [&](Runtime& runtime) {
    return Exists(runtime, device) ? AttributeOf(runtime, attribute, value)
                                   : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call("cudaGetDeviceProperties", InCapture::kAllowed, [&](Runtime& runtime) {
    if (!Exists(runtime, device)) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof *properties);
    std::strncpy(properties->name, "Strata's stand-in, which interprets kernels on the CPU",
                 sizeof properties->name - 1);
    properties->totalGlobalMem = runtime.machine().memory.capacity_bytes();
    properties->major = 9;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->multiProcessorCount = 132;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->sharedMemPerMultiprocessor = 228 << 10;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// The names of the errors that the stand-in itself returns; the others by number.
const char* cudaGetErrorName(cudaError_t error) {
#define STRATA_STANDIN_NAME(name) \
  case name:                      \
    return #name;
  switch (error) {
    STRATA_STANDIN_NAME(cudaSuccess)
    STRATA_STANDIN_NAME(cudaErrorInvalidValue)
    STRATA_STANDIN_NAME(cudaErrorMemoryAllocation)
    STRATA_STANDIN_NAME(cudaErrorInvalidConfiguration)
    STRATA_STANDIN_NAME(cudaErrorInvalidPitchValue)
    STRATA_STANDIN_NAME(cudaErrorInvalidSymbol)
    STRATA_STANDIN_NAME(cudaErrorInvalidDeviceFunction)
    STRATA_STANDIN_NAME(cudaErrorInvalidDevice)
    STRATA_STANDIN_NAME(cudaErrorECCUncorrectable)
    STRATA_STANDIN_NAME(cudaErrorInvalidResourceHandle)
    STRATA_STANDIN_NAME(cudaErrorIllegalState)
    STRATA_STANDIN_NAME(cudaErrorNotReady)
    STRATA_STANDIN_NAME(cudaErrorIllegalAddress)
    STRATA_STANDIN_NAME(cudaErrorAssert)
    STRATA_STANDIN_NAME(cudaErrorLaunchTimeout)
    STRATA_STANDIN_NAME(cudaErrorHostMemoryAlreadyRegistered)
    STRATA_STANDIN_NAME(cudaErrorHostMemoryNotRegistered)
    STRATA_STANDIN_NAME(cudaErrorLaunchFailure)
    STRATA_STANDIN_NAME(cudaErrorNotPermitted)
    STRATA_STANDIN_NAME(cudaErrorNotSupported)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureUnsupported)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureInvalidated)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureMerge)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureUnmatched)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureUnjoined)
    STRATA_STANDIN_NAME(cudaErrorStreamCaptureIsolation)
    STRATA_STANDIN_NAME(cudaErrorCapturedEvent)
    default:
      return "an error that the stand-in has no name for";
  }
#undef STRATA_STANDIN_NAME
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

}  // extern "C"
