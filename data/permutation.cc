#include "data/permutation.h"

#include <bit>

#include "common/check.h"
#include "common/rng.h"

namespace strata::data {
namespace {

// Four rounds are enough in theory for large domains; small ones mix better with more.
constexpr int kRounds = 8;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key)
    : size_(static_cast<uint64_t>(size)), key_(key) {
  STRATA_CHECK(size >= 1 && size < (int64_t{1} << 62));
  half_bits_ = (std::bit_width(size_ - 1) + 1) / 2;
}

uint64_t Permutation::Once(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const auto words = common::Philox(key_, right, static_cast<uint64_t>(round));
    const uint64_t mixed = left ^ (words[0] & mask);
    left = right, right = mixed;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::At(int64_t index) const {
  uint64_t value = static_cast<uint64_t>(index);
  STRATA_CHECK(index >= 0 && value < size_);
  if (size_ == 1) return 0;
  // Ends: the walk is along a cycle of a permutation that contains `index`, which is inside.
  do {
    value = Once(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace strata::data
