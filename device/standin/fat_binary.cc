// The entry points that nvcc's generated code calls. Their declarations are in no public header.
#include "device/standin/fat_binary.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

namespace strata::standin {

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

namespace {

// fatBinaryCtl's layout: a magic number, a version, the data.
struct Wrapper {
  int magic, version;
  const char* data;
  void* file;
};

// PTX lies in the data as text when it was compiled with --no-compress.
std::string_view FindPtx(const char* data) {
  uint64_t bytes;  // behind a header of 16
  std::memcpy(&bytes, data + 8, sizeof bytes);
  const std::string_view all(data, 16 + bytes);
  const size_t begin = all.find("\n.version");
  if (begin == std::string_view::npos) return {};
  return all.substr(begin, all.find('\0', begin) - begin);
}

void** HandleOf(size_t module) { return reinterpret_cast<void**>(module + 1); }
size_t ModuleOf(void** handle) { return reinterpret_cast<size_t>(handle) - 1; }

}  // namespace
}  // namespace strata::standin

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper);
void** __cudaRegisterFatBinary(void* wrapper) {
  namespace standin = strata::standin;
  auto& modules = standin::TheRegistry().modules;
  modules.push_back(standin::FindPtx(static_cast<standin::Wrapper*>(wrapper)->data));
  return standin::HandleOf(modules.size() - 1);
}

void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle);
void __cudaUnregisterFatBinary(void**) {}

char __cudaInitModule(void** handle);
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int thread_limit, uint3* thread, uint3* block, dim3* block_dim,
                            dim3* grid_dim, int* warp_size);
void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  strata::standin::TheRegistry().kernels[host] = {strata::standin::ModuleOf(handle), name};
}

void __cudaRegisterVar(void** handle, char* host, char* address, const char* name, int external,
                       size_t bytes, int constant, int global);
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
  strata::standin::TheRegistry().variables[host] = {strata::standin::ModuleOf(handle), name};
}

}  // extern "C"
