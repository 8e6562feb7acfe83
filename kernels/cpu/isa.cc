#include "kernels/isa.h"

#include <immintrin.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace strata::kernels {
namespace {

constexpr int kArchRequestStatePermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
constexpr int kTileDataFeature = 18;                 // XFEATURE_XTILEDATA

// In the forked child: only what is safe after fork in a process with threads.
[[noreturn]] void TryTileInstruction() {
  signal(SIGILL, SIG_DFL);
  signal(SIGSEGV, SIG_DFL);
  if (syscall(SYS_arch_prctl, kArchRequestStatePermission, kTileDataFeature) != 0) _exit(1);
  alignas(64) uint8_t config[64] = {};
  config[0] = 1;   // palette 1
  config[16] = 4;  // tile 0: four bytes per row,
  config[48] = 1;  // one row
  asm volatile(
      ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00\n"  // ldtilecfg (%rax)
      ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0\n"  // tilezero %tmm0
      ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0\n"  // tilerelease
      :
      : "a"(config)
      : "memory");
  _exit(0);
}

bool CpuAdvertisesAmx() {
  unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
  asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (edx >> 24 & 1) != 0;  // AMX-TILE
}

// In the forked child: (1 + 2) * 3 in each lane, sums of two products of bf16.
[[noreturn, gnu::target("avx512f,avx512vl,avx512bf16")]] void TryBFloat16Instruction() {
  signal(SIGILL, SIG_DFL);
  const __m256i a = _mm256_set1_epi32(0x40003f80), b = _mm256_set1_epi32(0x40404040);
  const __m256 sums = _mm256_dpbf16_ps(_mm256_setzero_ps(), reinterpret_cast<__m256bh>(a),
                                       reinterpret_cast<__m256bh>(b));
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, sums);
  for (const float lane : lanes) {
    if (lane != 9.0F) _exit(1);
  }
  _exit(0);
}

// Runs `attempt`, which does not return, in a child: true when it left with 0.
bool WorksInAChild(void (*attempt)()) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) attempt();
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool ProbeAmx() { return CpuAdvertisesAmx() && WorksInAChild(TryTileInstruction); }

bool ProbeBFloat16() {
  if (DetectIsa() != Isa::kAvx512) return false;
  if (AmxWorks()) return true;
  return __builtin_cpu_supports("avx512bf16") && WorksInAChild(TryBFloat16Instruction);
}

}  // namespace

namespace {

Isa Detect() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return Isa::kUnsupported;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const char* const most = std::getenv("STRATA_MAX_ISA");
  const bool capped = most != nullptr && std::strcmp(most, "avx2") == 0;
  return avx512 && !capped ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace

Isa DetectIsa() {
  static const Isa isa = Detect();
  return isa;
}

std::string IsaName() {
  switch (DetectIsa()) {
    case Isa::kUnsupported:
      return "unsupported";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unsupported";
}

absl::Status CheckCpu() {
  if (DetectIsa() != Isa::kUnsupported) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this CPU lacks AVX2, FMA or F16C, which the CPU kernels need (x86-64-v3)");
}

bool AmxWorks() {
  static const bool works = ProbeAmx();
  return works;
}

bool BFloat16Works() {
  static const bool works = ProbeBFloat16();
  return works;
}

void PrepareOneDnn() {
  static const bool prepared = [] {
    // A limit that the user has set stands. The call is refused, harmlessly, once oneDNN is in use.
    if (std::getenv("DNNL_MAX_CPU_ISA") == nullptr && CpuAdvertisesAmx() && !AmxWorks()) {
      dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    }
    return true;
  }();
  static_cast<void>(prepared);
}

}  // namespace strata::kernels
