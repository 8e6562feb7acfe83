#include "kernels/cuda/budgets/recorder.h"

#include <cuda_runtime_api.h>

#include <map>
#include <utility>

namespace strata::kernels::cuda {
namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};
Configuration pushed;

std::map<const void*, std::string>& Names() {
  static auto* const names = new std::map<const void*, std::string>;  // before main
  return *names;
}

std::vector<RecordedLaunch>& Launches() {
  static auto* const launches = new std::vector<RecordedLaunch>;
  return *launches;
}

cudaError_t Record(const void* host, dim3 grid, dim3 block, size_t shared) {
  const auto name = Names().find(host);
  if (name == Names().end()) return cudaErrorInvalidDeviceFunction;
  Launches().push_back({.kernel = name->second,
                        .blocks = int64_t{grid.x} * grid.y * grid.z,
                        .threads = int64_t{block.x} * block.y * block.z,
                        .shared_bytes = static_cast<int64_t>(shared)});
  return cudaSuccess;
}

}  // namespace

std::vector<RecordedLaunch> TakeLaunches() { return std::exchange(Launches(), {}); }

}  // namespace strata::kernels::cuda

// What nvcc's code and launchers call. The first ones' declarations are in no public header.
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper);
void** __cudaRegisterFatBinary(void* wrapper) { return static_cast<void**>(wrapper); }

void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle);
void __cudaUnregisterFatBinary(void**) {}

char __cudaInitModule(void** handle);
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int thread_limit, uint3* thread, uint3* block, dim3* block_dim,
                            dim3* grid_dim, int* warp_size);
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  strata::kernels::cuda::Names()[host] = name;
}

void __cudaRegisterVar(void** handle, char* host, char* address, const char* name, int external,
                       size_t bytes, int constant, int global);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  strata::kernels::cuda::pushed = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const auto& pushed = strata::kernels::cuda::pushed;
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, size_t shared,
                               cudaStream_t) {
  return strata::kernels::cuda::Record(kernel, grid, block, shared);
}

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void**, size_t shared,
                             cudaStream_t) {
  return strata::kernels::cuda::Record(host, grid, block, shared);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void**) {
  return strata::kernels::cuda::Record(host, config->gridDim, config->blockDim,
                                       config->dynamicSmemBytes);
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// Of an H100.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 << 10;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "not a kernel"; }
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaSuccess; }

}  // extern "C"
