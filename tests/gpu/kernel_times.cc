// Writes down every kernel, copy and fill that a process runs on a GPU, with its times, by CUPTI's
// activity records.
//
// A library that CUDA loads by itself: CUDA_INJECTION64_PATH=libkernel_times.so
// STRATA_KERNEL_TIMES=FILE program. One line per activity goes to FILE.PID: kind, start and end
// (ns), stream, bytes or blocks and threads, name. Lines are written a few times a second, so a
// process that is killed leaves all but its last. kernel_times.py makes tables of them.
//
// CUPTI is loaded when the program starts: it is a library of the machine with the GPU.

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr size_t kBufferBytes = 256 << 10;  // a job may end before a large one is full
constexpr uint32_t kFlushMilliseconds = 300;

std::FILE* g_file = nullptr;
decltype(&cuptiActivityGetNextRecord) g_next_record = nullptr;
decltype(&cuptiActivityFlushAll) g_flush_all = nullptr;

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

void WriteLine(const char* kind, uint64_t start, uint64_t end, uint32_t stream,
               const std::string& size, const std::string& name) {
  std::fprintf(g_file, "%s %llu %llu %u %s %s\n", kind, static_cast<unsigned long long>(start),
               static_cast<unsigned long long>(end), stream, size.c_str(), name.c_str());
}

void Write(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    const std::string size = std::to_string(kernel.gridX) + "x" + std::to_string(kernel.gridY) +
                             "x" + std::to_string(kernel.gridZ) + "*" +
                             std::to_string(kernel.blockX * kernel.blockY * kernel.blockZ);
    WriteLine("kernel", kernel.start, kernel.end, kernel.streamId, size, Demangled(kernel.name));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
    const char* way = copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "to the device"
                      : copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "to the host"
                                                                         : "on the device";
    WriteLine("copy", copy.start, copy.end, copy.streamId, std::to_string(copy.bytes), way);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    WriteLine("fill", fill.start, fill.end, fill.streamId, std::to_string(fill.bytes), "fill");
  }
}

void GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most_records = 0;
}

void TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  CUpti_Activity* record = nullptr;
  while (g_next_record(buffer, used, &record) == CUPTI_SUCCESS) Write(*record);
  std::fflush(g_file);
  std::free(buffer);
}

bool Start(void* cupti) {
  const auto find = [cupti]<typename F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(cupti, name));
    return function != nullptr;
  };
  decltype(&cuptiActivityRegisterCallbacks) set_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushPeriod) set_period = nullptr;
  if (!find(set_callbacks, "cuptiActivityRegisterCallbacks") ||
      !find(enable, "cuptiActivityEnable") || !find(set_period, "cuptiActivityFlushPeriod") ||
      !find(g_next_record, "cuptiActivityGetNextRecord") ||
      !find(g_flush_all, "cuptiActivityFlushAll")) {
    return false;
  }
  if (set_callbacks(GiveBuffer, TakeBuffer) != CUPTI_SUCCESS) return false;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (enable(kind) != CUPTI_SUCCESS) return false;
  }
  set_period(kFlushMilliseconds);
  std::atexit([] { g_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); });
  return true;
}

}  // namespace

// What CUDA calls; what it returns says whether it went well.
extern "C" int InitializeInjection() {
  const char* path = std::getenv("STRATA_KERNEL_TIMES");
  if (path == nullptr) return 1;
  void* cupti = dlopen("libcupti.so.13", RTLD_NOW);
  g_file = std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
  if (cupti != nullptr && g_file != nullptr && Start(cupti)) return 1;
  std::fprintf(stderr, "kernel_times: no records: %s\n",
               cupti == nullptr ? dlerror() : "the file or CUPTI");
  return 0;
}
