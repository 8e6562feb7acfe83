// Boxes of tensors: which part of a logical tensor somebody holds, and how two parts meet.
#ifndef STRATA_CHECKPOINT_BOX_H_
#define STRATA_CHECKPOINT_BOX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::checkpoint {

// Elements offset[d] … offset[d] + extent[d] - 1 of each dimension d, in row-major order. A tensor
// without dimensions has one box, without offsets.
struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> extent;

  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box&, const Box&) = default;
  int64_t elements() const;  // of a box inside a tensor: never overflows
};

// Elements [begin, end) of a box in its row-major order: a rank's share of a cut tensor that data
// parallelism cut once more. All of the box is the plain box, a range of the whole tensor a flat
// range.
struct Region {
  Box box;
  int64_t begin = 0;
  int64_t end = 0;
};

Box WholeBox(const std::vector<int64_t>& shape);
// Has the tensor's dimensions and lies inside; no extent is negative.
bool IsInside(const Box& box, const std::vector<int64_t>& shape);
// The common part; nothing when there is none. Both of one tensor.
std::optional<Box> Intersect(const Box& a, const Box& b);
// "[0:2, 3:6]".
std::string ToText(const Box& box);

// The region as boxes that follow one another in its order: partial rows, whole rows, partial rows,
// at most twice as many as dimensions.
std::vector<Box> BoxesOf(const Region& region);

// Walks the elements that two boxes have in common as runs that are contiguous in both, ascending
// in both.
class CommonRuns {
 public:
  struct Run {
    int64_t from = 0;  // index in the first box's row-major order
    int64_t to = 0;    // in the second's
    int64_t count = 0;
  };
  CommonRuns(const Box& from, const Box& to);
  // The next one; nothing at the end.
  std::optional<Run> Next();

 private:
  std::vector<int64_t> extent_, from_stride_, to_stride_, at_;  // of the dimensions walked
  Run run_;
  bool done_ = false;
};

// Strides of a dense row-major array, in elements.
std::vector<int64_t> DenseStrides(const std::vector<int64_t>& extent);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_BOX_H_
