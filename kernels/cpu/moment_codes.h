// The codes of moments of eight bits (kernels/state_format.h).
#ifndef STRATA_KERNELS_CPU_MOMENT_CODES_H_
#define STRATA_KERNELS_CPU_MOMENT_CODES_H_

#include <array>
#include <cstdint>

#include "kernels/state_format.h"

namespace strata::kernels {

// A table and how its nearest entry is found: level 0 is zero, then those above it, ascending; a
// level below zero is that of the same distance. Within a decade entries are equally far apart, so
// that a level is a linear function, rounded down; it is another one above the middle between two
// decades' nearest entries.
struct MomentCodes {
  static constexpr int kDecades = 7;

  explicit MomentCodes(bool has_sign);

  int zero;  // the code of 0; as many levels lie below it
  // By decade, which is a lane.
  alignas(32) float above[8] = {}, base[8] = {}, last[8] = {};
  alignas(32) float slope[8] = {}, offset[8] = {};
  float one_above = 0, most = 0;
  std::array<float, 256> table{};

  // Of a distance from zero, at most 1; and the bits of the greatest distance of each level but the
  // last, which says the same, since a level is never below that of a smaller distance.
  int LevelOf(float distance) const;
  std::array<uint32_t, 256> greatest{};
};

const MomentCodes& CodesOf(MomentFormat format);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_MOMENT_CODES_H_
