#include "data/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/rng.h"
#include "data/permutation.h"

namespace strata::data {
namespace {

constexpr double kOne = 0x1p63;  // fixed-point unit of Interleave's shares

std::vector<double> WeightsOf(const Split& split) {
  std::vector<double> weights;
  for (const SplitSource& source : split.sources) weights.push_back(source.weight);
  return weights;
}

}  // namespace

Interleave::Interleave(const std::vector<double>& weights) {
  STRATA_CHECK(!weights.empty());
  for (const double weight : weights) STRATA_CHECK(std::isfinite(weight) && weight > 0);
  root_ = Build(weights, 0, static_cast<int32_t>(weights.size()));
}

int32_t Interleave::Build(const std::vector<double>& weights, int32_t begin, int32_t end) {
  if (end - begin == 1) return ~begin;
  const int32_t middle = begin + (end - begin) / 2;
  // Scaled by the largest, so that a sum of finite weights cannot overflow.
  double largest = 0, left_sum = 0, right_sum = 0;
  for (int32_t i = begin; i < end; ++i) largest = std::max(largest, weights[i]);
  for (int32_t i = begin; i < middle; ++i) left_sum += weights[i] / largest;
  for (int32_t i = middle; i < end; ++i) right_sum += weights[i] / largest;
  const uint64_t share = static_cast<uint64_t>(left_sum / (left_sum + right_sum) * kOne);
  const int32_t left = Build(weights, begin, middle);
  const int32_t right = Build(weights, middle, end);
  nodes_.push_back({share, left, right});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

Interleave::Turn Interleave::At(int64_t index) const {
  STRATA_CHECK(index >= 0);
  int32_t at = root_;
  while (at >= 0) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    // How many of the first n samples went left. The product fits: n < 2^63, share <= 2^63.
    const auto sent_left = [&node](uint64_t n) {
      return static_cast<int64_t>(static_cast<unsigned __int128>(n) * node.left_share >> 63);
    };
    const uint64_t n = static_cast<uint64_t>(index);
    const int64_t left_before = sent_left(n);
    const bool goes_left = sent_left(n + 1) > left_before;
    at = goes_left ? node.left : node.right;
    index = goes_left ? left_before : index - left_before;
  }
  return {~at, index};
}

Sampler::Sampler(const Split& split, uint64_t seed, bool shuffle)
    : interleave_(WeightsOf(split)), seed_(seed), shuffle_(shuffle) {
  for (const SplitSource& source : split.sources) {
    STRATA_CHECK(source.windows >= 1);
    windows_.push_back(source.windows);
  }
}

SampleRef Sampler::At(int64_t index) const {
  const Interleave::Turn turn = interleave_.At(index);
  const int64_t windows = windows_[static_cast<size_t>(turn.source)];
  const int64_t epoch = turn.count / windows, place = turn.count % windows;
  if (!shuffle_) return {turn.source, place};
  const uint64_t source_key = common::MixBits(seed_, static_cast<uint64_t>(turn.source));
  const uint64_t key = common::MixBits(source_key, static_cast<uint64_t>(epoch));
  return {turn.source, Permutation(windows, key).At(place)};
}

}  // namespace strata::data
