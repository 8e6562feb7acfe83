// Chance: streams of numbers that depend on a seed and a stream's number only, so that a change in
// what one part draws does not move the others.
#ifndef STRATA_CONTROLLER_SIMULATOR_RANDOM_H_
#define STRATA_CONTROLLER_SIMULATOR_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/rng.h"

namespace strata::simulator {

class Random {
 public:
  enum Stream : uint64_t { kFailures = 1, kWorkload, kLatencies, kOperators };
  Random(uint64_t seed, Stream stream) : key_(common::MixBits(seed, stream)) {}

  uint64_t Next() { return common::MixBits(key_, counter_++); }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Between(double low, double high) { return low + (high - low) * Uniform(); }
  bool Chance(double probability) { return Uniform() < probability; }
  int64_t Below(int64_t count) {  // 0 … count − 1
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(count));
  }
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Next() % i]);
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_RANDOM_H_
