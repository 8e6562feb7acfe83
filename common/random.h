// Chance, one number after the other: a stream's numbers depend on its seed alone.
#ifndef STRATA_COMMON_RANDOM_H_
#define STRATA_COMMON_RANDOM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/rng.h"

namespace strata::common {

class Random {
 public:
  explicit Random(uint64_t seed) : key_(seed) {}
  // What one part draws from its stream does not move the others.
  Random(uint64_t seed, uint64_t stream) : key_(MixBits(seed, stream)) {}

  uint64_t Next() { return MixBits(key_, counter_++); }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Between(double low, double high) { return low + (high - low) * Uniform(); }
  bool Chance(double probability) { return Uniform() < probability; }
  // 0 … count − 1.
  template <typename Integer>
  Integer Below(Integer count) {
    return static_cast<Integer>(Next() % static_cast<uint64_t>(count));
  }
  // Both ends included.
  int Within(int low, int high) { return low + Below(high - low + 1); }
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Next() % i]);
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace strata::common

#endif  // STRATA_COMMON_RANDOM_H_
