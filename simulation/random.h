// A simulation's only source of chance.
#ifndef STRATA_SIMULATION_RANDOM_H_
#define STRATA_SIMULATION_RANDOM_H_

#include <cstdint>

namespace strata::simulation {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int Below(int count) { return static_cast<int>(Next() % static_cast<uint64_t>(count)); }
  // Both ends included.
  int Within(int low, int high) { return low + Below(high - low + 1); }
  double Between(double low, double high) {
    return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
  }
  bool Chance(double probability) { return Between(0, 1) < probability; }

 private:
  uint64_t state_;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_RANDOM_H_
