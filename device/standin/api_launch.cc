// Launching kernels, and what the runtime tells of them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "device/standin/block.h"
#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

constexpr int64_t kMostSharedBytes = 227 << 10;  // of a block, on sm_90

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local Configuration pushed;

// The rules of the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
cudaError_t Check(const Kernel& kernel, const Configuration& c) {
  const int64_t threads = int64_t{c.block.x} * c.block.y * c.block.z;
  if (threads == 0 || threads > 1024 || c.block.z > 64 || c.grid.x == 0 || c.grid.y == 0 ||
      c.grid.z == 0 || c.grid.x > 0x7fffffff || c.grid.y > 65535 || c.grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  const Program& program = kernel.program;
  if (program.most_threads != 0 && threads > program.most_threads) return cudaErrorInvalidValue;
  const int64_t shared = static_cast<int64_t>(c.shared), fixed = program.shared_bytes;
  if (shared > kernel.MostDynamicSharedBytes() || shared + fixed > kMostSharedBytes) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t LaunchOn(Runtime& runtime, const void* host, const Configuration& c, void** arguments) {
  Kernel* const kernel = runtime.FindKernel(host);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  Stream* const stream = runtime.Find(c.stream, "a kernel's launch");
  if (stream == nullptr || stream->device != CurrentDevice()) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = Check(*kernel, c); error != cudaSuccess) return error;
  const Program& program = kernel->program;
  Launch launch{&program,
                {c.grid.x, c.grid.y, c.grid.z},
                {c.block.x, c.block.y, c.block.z},
                c.shared,
                std::vector<std::byte>(program.parameter_bytes)};
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const auto& [offset, bytes] = program.parameters[i];
    std::memcpy(launch.parameters.data() + offset, arguments[i], bytes);
  }
  runtime.Enqueue(*stream, program.name,
                  [&machine = runtime.machine(), launch = std::move(launch)](OperationId id) {
                    RunGrid(launch, machine, id);
                  });
  return cudaSuccess;
}

cudaError_t LaunchNamed(const char* name, const void* host, const Configuration& c,
                        void** arguments) {
  return Call(name, InCapture::kAllowed,
              [&](Runtime& runtime) { return LaunchOn(runtime, host, c, arguments); });
}

}  // namespace
}  // namespace strata::standin

using strata::standin::Call;
using strata::standin::InCapture;
using strata::standin::Kernel;
using strata::standin::Runtime;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  strata::standin::pushed = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const auto& pushed = strata::standin::pushed;
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

// A kernel's handle is its host twin's address.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return strata::standin::LaunchNamed("cudaLaunchKernel", host, {grid, block, shared, stream},
                                      arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host,
                                void** arguments) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttributeID id = config->attrs[i].id;
    if (id == cudaLaunchAttributeClusterDimension || id == cudaLaunchAttributeCooperative) {
      return cudaErrorNotSupported;
    }
  }
  return strata::standin::LaunchNamed(
      "cudaLaunchKernel", host,
      {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream}, arguments);
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  return Call("cudaFuncSetAttribute", InCapture::kAllowed, [&](Runtime& runtime) {
    Kernel* const kernel = runtime.FindKernel(host);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    const int64_t most =
        strata::standin::kMostSharedBytes - static_cast<int64_t>(kernel->program.shared_bytes);
    if (value < 0 || value > most) return cudaErrorInvalidValue;
    kernel->most_dynamic_shared_bytes = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  return Call("cudaFuncGetAttributes", InCapture::kAllowed, [&](Runtime& runtime) {
    const Kernel* const kernel = runtime.FindKernel(host);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->sharedSizeBytes = kernel->program.shared_bytes;
    attributes->localSizeBytes = kernel->program.local_bytes;
    attributes->maxThreadsPerBlock =
        kernel->program.most_threads == 0 ? 1024 : static_cast<int>(kernel->program.most_threads);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(kernel->MostDynamicSharedBytes());
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
  });
}

// By threads and shared memory alone: registers are ptxas's business.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host,
                                                          int block_threads, size_t shared) {
  return Call(
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor", InCapture::kAllowed, [&](Runtime& runtime) {
        const Kernel* const kernel = runtime.FindKernel(host);
        if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
        if (block_threads <= 0) return cudaErrorInvalidValue;
        const size_t bytes = shared + kernel->program.shared_bytes + 1024;
        *blocks = std::min<int>(2048 / block_threads, static_cast<int>((228 << 10) / bytes));
        return cudaSuccess;
      });
}

}  // extern "C"
