#include "common/normal_series.h"

#include "common/normal_lanes.h"
#include "common/rng.h"

namespace strata::common {
namespace {

using Writer = void (*)(uint64_t key, uint64_t first, float scale, int64_t count, float* out);

void WriteOneByOne(uint64_t key, uint64_t first, float scale, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = scale * NormalAt(key, first + static_cast<uint64_t>(i));
  }
}

Writer BestWriter() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    return avx512::WriteNormals;
  }
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 ? avx2::WriteNormals : WriteOneByOne;
}

}  // namespace

void WriteNormals(uint64_t key, uint64_t first, float scale, absl::Span<float> out) {
  static const Writer write = BestWriter();
  write(key, first, scale, static_cast<int64_t>(out.size()), out.data());
}

}  // namespace strata::common
