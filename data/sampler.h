// The order of training samples: a pure function of (seed, global sample index).
//
// Nothing is stored and nothing is drawn, so a job resumed at any index, on any number of ranks,
// continues exactly. Sources are interleaved evenly in proportion to their weights; each source
// then goes through its own windows, every one once per epoch of that source, in an order of its
// own for each epoch (or in file order, starting over at the end).
#ifndef STRATA_DATA_SAMPLER_H_
#define STRATA_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/corpus.h"

namespace strata::data {

// Which source gets the sample of an index, and how many samples it got before. A binary tree over
// the sources; a node that has handed out n samples, with share p of its left side, has sent
// floor(n p) of them left (the even spacing of a Beatty sequence), so after n samples each source
// is within the tree's depth of n times its share. Of weights that are whole numbers with sum W
// each source has got exactly k times its weight after k W samples.
class Interleave {
 public:
  struct Turn {
    int32_t source;
    int64_t count;  // earlier samples of the same source
  };
  // At least one weight, each finite and > 0.
  explicit Interleave(const std::vector<double>& weights);
  Turn At(int64_t index) const;
  // How many of the first `samples` samples each source gets.
  std::vector<int64_t> CountsAfter(int64_t samples) const;

 private:
  struct Node {
    uint64_t left_share;  // of 2^63
    int32_t left, right;  // a node, or ~source
  };
  static int64_t SentLeft(const Node& node, int64_t samples);
  int32_t Build(const std::vector<double>& weights, int32_t begin, int32_t end);

  std::vector<Node> nodes_;  // children before their parents
  int32_t root_;
};

class Sampler {
 public:
  // Every source of `split` has at least one window. Keeps nothing of `split`.
  Sampler(const Split& split, uint64_t seed, bool shuffle);
  // The window of a global sample index (>= 0). O(log sources), no allocation, any thread.
  SampleRef At(int64_t index) const;
  // With how many samples, at the least, every window of every source has been read `passes` times
  // (>= 1): the source that is longest for its weight decides. OutOfRange: with none that can be
  // counted.
  absl::StatusOr<int64_t> SamplesOfPasses(int64_t passes) const;

 private:
  Interleave interleave_;
  std::vector<int64_t> windows_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_SAMPLER_H_
