// Writes down every kernel, copy and fill that a process runs on a GPU, with its times, by CUPTI's activity records.
//
// A library that CUDA loads by itself: CUDA_INJECTION64_PATH=libkernel_times.so STRATA_KERNEL_TIMES=FILE program. One line
// per activity goes to FILE.PID: kind, start and end (ns), stream, bytes or blocks × threads, name. Records are written a few
// times a second, so a process that is killed leaves all but its last. tests/gpu/profile.py makes tables of it.

#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr size_t kBufferBytes = 4 << 20;

std::FILE* g_file = nullptr;

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

void Write(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& k = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      std::fprintf(g_file, "kernel %llu %llu %u %dx%dx%d*%d %s\n", static_cast<unsigned long long>(k.start),
                   static_cast<unsigned long long>(k.end), k.streamId, k.gridX, k.gridY, k.gridZ,
                   k.blockX * k.blockY * k.blockZ, Demangled(k.name).c_str());
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& c = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      std::fprintf(g_file, "copy %llu %llu %u %llu kind %d\n", static_cast<unsigned long long>(c.start),
                   static_cast<unsigned long long>(c.end), c.streamId, static_cast<unsigned long long>(c.bytes), c.copyKind);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& m = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      std::fprintf(g_file, "fill %llu %llu %u %llu fill\n", static_cast<unsigned long long>(m.start),
                   static_cast<unsigned long long>(m.end), m.streamId, static_cast<unsigned long long>(m.bytes));
      break;
    }
    default:
      break;
  }
}

void GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most_records = 0;
}

void TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) Write(*record);
  std::fflush(g_file);
  std::free(buffer);
}

void Flush() { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); }

}  // namespace

extern "C" int InitializeInjection() {
  const char* path = std::getenv("STRATA_KERNEL_TIMES");
  if (path == nullptr) return 1;
  g_file = std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
  if (g_file == nullptr) return 0;
  if (cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer) != CUPTI_SUCCESS) return 0;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) return 0;
  }
  cuptiActivityFlushPeriod(300);
  std::atexit(Flush);
  return 1;
}
