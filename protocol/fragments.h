// Which files of checkpoints the ranks of one start have written, and nobody has committed yet.
#ifndef STRATA_PROTOCOL_FRAGMENTS_H_
#define STRATA_PROTOCOL_FRAGMENTS_H_

#include <google/protobuf/map.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace strata::protocol {

// Rank 0 writes no further checkpoint while so many are not committed.
inline constexpr int kMostUncommitted = 2;

// A checkpoint that all ranks have written.
struct WholeCheckpoint {
  int64_t step = 0;
  std::vector<std::string> fragments;  // by rank, each as its writer described it
};

// Bounded: the newest steps.
class FragmentBook {
 public:
  static constexpr size_t kMostSteps = 4;

  // Adds what some ranks wrote of a checkpoint; fragments of ranks beyond `ranks` are left out.
  // Returns the checkpoint when all are there, also when this is a repetition.
  std::optional<WholeCheckpoint> Add(int64_t step,
                                     const google::protobuf::Map<int32_t, std::string>& fragments,
                                     int ranks);
  // Whether all of these ranks' fragments of the step are there.
  bool Has(int64_t step, const std::vector<int>& ranks) const;
  // Whether all of these ranks' fragments are there of each step that any rank has written.
  bool HasAllOf(const std::vector<int>& ranks) const;
  // Of how many steps after `step` some rank has written its part.
  int CountAfter(int64_t step) const;
  // The newest one that all ranks have written.
  std::optional<WholeCheckpoint> Newest(int ranks) const;
  // Steps up to this one are done with.
  void Forget(int64_t step);

 private:
  std::map<int64_t, std::map<int, std::string>> by_step_;
};

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_FRAGMENTS_H_
