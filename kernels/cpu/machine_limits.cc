#include "kernels/machine_limits.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cpu/simd.h"
#include "kernels/isa.h"

namespace strata::kernels {
namespace {

namespace simd = STRATA_ISA::simd;

constexpr int kAttempts = 7;
constexpr int64_t kArrayFloats = int64_t{32} << 20;
constexpr int64_t kChunkFloats = int64_t{1} << 18;
constexpr int64_t kFmaRounds = 2'000'000;

template <typename Body>
double FastestSeconds(const common::Clock& clock, const Body& body) {
  double fastest = 1e30;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double begin = clock.Now();
    body();
    fastest = std::min(fastest, clock.Now() - begin);
  }
  return fastest;
}

// Ten independent chains: two units with a latency of four or five cycles stay busy. The
// instructions are spelled out, or the compiler would fold the chains.
double FmaChainsAvx2() {
  asm volatile(
      "mov %0, %%rcx\n"
      "1:\n"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm1\n vfmadd231ps %%ymm0, %%ymm0, %%ymm2\n"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm3\n vfmadd231ps %%ymm0, %%ymm0, %%ymm4\n"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm5\n vfmadd231ps %%ymm0, %%ymm0, %%ymm6\n"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm7\n vfmadd231ps %%ymm0, %%ymm0, %%ymm8\n"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm9\n vfmadd231ps %%ymm0, %%ymm0, %%ymm10\n"
      "dec %%rcx\n jnz 1b\n"
      :
      : "r"(kFmaRounds)
      : "rcx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10");
  return 10.0 * 16 * kFmaRounds;
}

double FmaChainsAvx512() {
  asm volatile(
      "mov %0, %%rcx\n"
      "1:\n"
      "vfmadd231ps %%zmm0, %%zmm0, %%zmm1\n vfmadd231ps %%zmm0, %%zmm0, %%zmm2\n"
      "vfmadd231ps %%zmm0, %%zmm0, %%zmm3\n vfmadd231ps %%zmm0, %%zmm0, %%zmm4\n"
      "vfmadd231ps %%zmm0, %%zmm0, %%zmm5\n vfmadd231ps %%zmm0, %%zmm0, %%zmm6\n"
      "vfmadd231ps %%zmm0, %%zmm0, %%zmm7\n vfmadd231ps %%zmm0, %%zmm0, %%zmm8\n"
      "vfmadd231ps %%zmm0, %%zmm0, %%zmm9\n vfmadd231ps %%zmm0, %%zmm0, %%zmm10\n"
      "dec %%rcx\n jnz 1b\n vzeroupper\n"
      :
      : "r"(kFmaRounds)
      : "rcx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10");
  return 10.0 * 32 * kFmaRounds;
}

double FmaChains() {
  // Zero operands: denormal or infinite ones could take longer.
  asm volatile("vzeroall" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  return DetectIsa() == Isa::kAvx512 ? FmaChainsAvx512() : FmaChainsAvx2();
}

float ReadChunk(const float* x) {
  simd::Vec sums[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  for (int64_t i = 0; i < kChunkFloats; i += 32) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      sums[part] = _mm256_add_ps(sums[part], _mm256_loadu_ps(x + i + 8 * part));
    }
  }
  return simd::Sum(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
}

}  // namespace

MachineLimits MeasureMachineLimits(device::ThreadPool* pool, const common::Clock& clock) {
  MachineLimits limits;
  double operations = 0;
  limits.core_flops_per_second = 1 / FastestSeconds(clock, [&] { operations = FmaChains(); });
  limits.core_flops_per_second *= operations;
  const int threads = pool->threads();
  const double all =
      FastestSeconds(clock, [&] { pool->ParallelFor(threads, [](int64_t, int) { FmaChains(); }); });
  limits.flops_per_second = operations * threads / all;

  std::vector<float> from(kArrayFloats, 1.0f), to(kArrayFloats, 2.0f);
  std::vector<float> sums(kArrayFloats / kChunkFloats);
  const auto sweep = [&](const auto& body) {
    return FastestSeconds(clock, [&] {
      pool->ParallelFor(kArrayFloats / kChunkFloats,
                        [&](int64_t task, int) { body(task, task * kChunkFloats); });
    });
  };
  constexpr double kBytes = kArrayFloats * sizeof(float);
  limits.read_bytes_per_second =
      kBytes / sweep([&](int64_t task, int64_t at) { sums[task] = ReadChunk(&from[at]); });
  limits.write_bytes_per_second =
      kBytes / sweep([&](int64_t task, int64_t at) {
        std::memset(&to[at], static_cast<int>(task & 1), kChunkFloats * sizeof(float));
      });
  limits.copy_bytes_per_second = 2 * kBytes / sweep([&](int64_t, int64_t at) {
                                   std::memcpy(&to[at], &from[at], kChunkFloats * sizeof(float));
                                 });
  return limits;
}

}  // namespace strata::kernels
