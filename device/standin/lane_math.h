// For handlers: values of a C++ type in registers, and functions mapped over the lanes of a warp.
#ifndef STRATA_DEVICE_STANDIN_LANE_MATH_H_
#define STRATA_DEVICE_STANDIN_LANE_MATH_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/standin/warp.h"

namespace strata::standin {

template <typename T>
T Unpack(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
uint64_t Pack(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename Visit>
void ForEachLane(uint32_t lanes, Visit&& visit) {
  if (lanes == ~uint32_t{0}) {
    for (int lane = 0; lane < kLanes; ++lane) visit(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) visit(__builtin_ctz(lanes));
}

// d = function(a, …): rows 0, 1, …
template <auto kFunction>
void Map1(Warp& warp, const Instruction& in, uint32_t lanes) {
  uint64_t* const d = warp.Row(in.rows[0]);
  const uint64_t* const a = warp.Row(in.rows[1]);
  ForEachLane(lanes, [&](int lane) { d[lane] = kFunction(a[lane]); });
}

template <auto kFunction>
void Map2(Warp& warp, const Instruction& in, uint32_t lanes) {
  uint64_t* const d = warp.Row(in.rows[0]);
  const uint64_t *const a = warp.Row(in.rows[1]), *const b = warp.Row(in.rows[2]);
  ForEachLane(lanes, [&](int lane) { d[lane] = kFunction(a[lane], b[lane]); });
}

template <auto kFunction>
void Map3(Warp& warp, const Instruction& in, uint32_t lanes) {
  uint64_t* const d = warp.Row(in.rows[0]);
  const uint64_t *const a = warp.Row(in.rows[1]), *const b = warp.Row(in.rows[2]),
                        *const c = warp.Row(in.rows[3]);
  ForEachLane(lanes, [&](int lane) { d[lane] = kFunction(a[lane], b[lane], c[lane]); });
}

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_LANE_MATH_H_
