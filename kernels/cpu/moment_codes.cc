#include "kernels/cpu/moment_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace strata::kernels {
namespace {

constexpr int kDecades = MomentCodes::kDecades;

// Of a table of eight bits, as bitsandbytes' create_dynamic_map makes them, in float: what is above
// zero of decade d, the means of 2^d (with a sign) or 2^(d+1) equal intervals of [0.1, 1], in units
// of 10^(d-6).
std::vector<float> EntriesOf(bool has_sign, int decade) {
  const int intervals = 1 << (has_sign ? decade : decade + 1);
  const float step = (1.0F - 0.1F) / static_cast<float>(intervals);
  const auto boundary = [&](int i) {  // from the nearer end, as torch.linspace has it
    return i < (intervals + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                                   : std::fma(-step, static_cast<float>(intervals - i), 1.0F);
  };
  const float scale = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
  std::vector<float> entries;
  for (int i = 0; i < intervals; ++i) {
    entries.push_back(scale * ((boundary(i) + boundary(i + 1)) / 2.0F));
  }
  return entries;
}

}  // namespace

MomentCodes::MomentCodes(bool has_sign) : zero(has_sign ? 127 : 0) {
  std::vector<float> levels = {0};
  for (int d = 0; d < kDecades; ++d) {
    const std::vector<float> entries = EntriesOf(has_sign, d);
    const double count = static_cast<double>(entries.size());
    above[d] = d == 0 ? 0 : (levels.back() + entries.front()) / 2;
    base[d] = static_cast<float>(levels.size());
    last[d] = static_cast<float>(count - 1);
    slope[d] = static_cast<float>(std::pow(10.0, kDecades - 1 - d) * count / 0.9);
    offset[d] = static_cast<float>(-count / 9);
    levels.insert(levels.end(), entries.begin(), entries.end());
  }
  one_above = (levels.back() + 1) / 2;
  levels.push_back(1);
  most = static_cast<float>(levels.size() - 1);
  for (int i = 0; i < static_cast<int>(levels.size()); ++i) {
    table[zero + i] = levels[i];
    if (i > 0 && i <= zero) table[zero - i] = -levels[i];
  }
  for (int level = 0; level < static_cast<int>(most); ++level) {
    uint32_t from = 0, to = std::bit_cast<uint32_t>(1.0F);  // of this level or below; above it
    while (to - from > 1) {
      const uint32_t middle = from + (to - from) / 2;
      (LevelOf(std::bit_cast<float>(middle)) <= level ? from : to) = middle;
    }
    greatest[level] = from;
  }
}

int MomentCodes::LevelOf(float distance) const {
  if (distance == 0) return 0;
  if (distance > one_above) return static_cast<int>(most);
  const auto next =
      std::find_if(above + 1, above + kDecades, [&](float a) { return distance <= a; });
  const auto d = next - above - 1;
  const float inside = std::floor(std::fma(distance, slope[d], offset[d]));
  return static_cast<int>(base[d] + std::clamp(inside, 0.0F, last[d]));
}

const MomentCodes& CodesOf(MomentFormat format) {
  static const MomentCodes& with_sign = *new MomentCodes(true);
  static const MomentCodes& without = *new MomentCodes(false);
  return format == MomentFormat::kSigned8 ? with_sign : without;
}

const std::array<float, 256>& MomentTable(MomentFormat format) { return CodesOf(format).table; }

float* MasterInF32(const Weights& weights) {
  if (weights.master_format == MasterFormat::kF32) return reinterpret_cast<float*>(weights.master);
  const bool plain =
      weights.master_format == MasterFormat::kNone && weights.type == NumberType::kF32;
  return plain ? reinterpret_cast<float*>(weights.weights) : nullptr;
}

float* MomentsInF32(const Moments& moments) {
  return moments.format == MomentFormat::kF32 ? reinterpret_cast<float*>(moments.data) : nullptr;
}

}  // namespace strata::kernels
