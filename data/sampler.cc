#include "data/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/rng.h"
#include "data/permutation.h"

namespace strata::data {
namespace {

constexpr double kOne = 0x1p63;    // fixed-point unit of Interleave's shares
constexpr double kExact = 0x1p53;  // whole doubles up to it are all of them
constexpr int64_t kMostSamples = int64_t{1} << 62;

// left / (left + right), both > 0, in units of 2^-63. Of whole numbers it is rounded up, so that n
// times it has the whole part of the exact product, for all n below 2^63 / (left + right).
uint64_t ShareOf(double left, double right) {
  const double total = left + right;
  if (left != std::floor(left) || right != std::floor(right) || total > kExact) {
    return static_cast<uint64_t>(left / total * kOne);
  }
  const auto whole = static_cast<unsigned __int128>(total);
  return static_cast<uint64_t>(((static_cast<unsigned __int128>(left) << 63) + whole - 1) / whole);
}

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
  // Of weights so large that their sum could overflow, what is divided counts no less.
  double largest = 0, left_sum = 0, right_sum = 0;
  for (int32_t i = begin; i < end; ++i) largest = std::max(largest, weights[i]);
  const double unit = largest <= kExact ? 1 : largest;
  for (int32_t i = begin; i < middle; ++i) left_sum += weights[i] / unit;
  for (int32_t i = middle; i < end; ++i) right_sum += weights[i] / unit;
  const uint64_t share = ShareOf(left_sum, right_sum);
  const int32_t left = Build(weights, begin, middle);
  const int32_t right = Build(weights, middle, end);
  nodes_.push_back({share, left, right});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

// The product fits: samples < 2^63, share <= 2^63.
int64_t Interleave::SentLeft(const Node& node, int64_t samples) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(samples) * node.left_share >> 63);
}

Interleave::Turn Interleave::At(int64_t index) const {
  STRATA_CHECK(index >= 0);
  int32_t at = root_;
  while (at >= 0) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    const int64_t left_before = SentLeft(node, index);
    const bool goes_left = SentLeft(node, index + 1) > left_before;
    at = goes_left ? node.left : node.right;
    index = goes_left ? left_before : index - left_before;
  }
  return {~at, index};
}

std::vector<int64_t> Interleave::CountsAfter(int64_t samples) const {
  std::vector<int64_t> counts(nodes_.size() + 1);  // a binary tree's leaves
  std::vector<int64_t> of_node(nodes_.size());
  const auto send = [&](int32_t to, int64_t count) {
    (to >= 0 ? of_node[static_cast<size_t>(to)] : counts[static_cast<size_t>(~to)]) = count;
  };
  send(root_, samples);
  for (size_t i = nodes_.size(); i-- > 0;) {
    const int64_t left = SentLeft(nodes_[i], of_node[i]);
    send(nodes_[i].left, left);
    send(nodes_[i].right, of_node[i] - left);
  }
  return counts;
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

absl::StatusOr<int64_t> Sampler::SamplesOfPasses(int64_t passes) const {
  STRATA_CHECK(passes >= 1);
  const auto enough = [&](int64_t samples) {
    const std::vector<int64_t> counts = interleave_.CountsAfter(samples);
    for (size_t s = 0; s < windows_.size(); ++s) {
      if (counts[s] / passes < windows_[s]) return false;
    }
    return true;
  };
  if (!enough(kMostSamples)) {
    return absl::OutOfRangeError("a source of so small a weight is never read to its end");
  }
  int64_t too_few = 0, most = kMostSamples;
  while (most - too_few > 1) {
    const int64_t middle = too_few + (most - too_few) / 2;
    (enough(middle) ? most : too_few) = middle;
  }
  return most;
}

}  // namespace strata::data
