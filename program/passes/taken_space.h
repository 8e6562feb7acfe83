// Which bytes are taken at which list positions.
#ifndef STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_
#define STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_

#include <cstdint>
#include <vector>

namespace strata::program {

struct ByteRange {
  int64_t begin = 0, end = 0;
};

// Sorted ranges that do not touch each other.
class ByteSet {
 public:
  void Insert(ByteRange bytes);
  // Whether any byte of the range is in it.
  bool Meets(ByteRange bytes) const;
  const std::vector<ByteRange>& ranges() const { return ranges_; }

 private:
  std::vector<ByteRange> ranges_;
};

// A segment tree over list positions.
class TakenSpace {
 public:
  explicit TakenSpace(int positions);

  // Takes the bytes at positions first … last.
  void Take(int first, int last, ByteRange bytes);
  // Appends what is taken at any of the positions: in no order, possibly more than once.
  void Collect(int first, int last, std::vector<ByteRange>& taken) const;

 private:
  struct Node {
    ByteSet whole;  // taken at each position below this node
    ByteSet some;   // taken at one position below it, or more
  };

  int leaves_;
  std::vector<Node> nodes_;  // 1 is the root; 2i and 2i + 1 are below i
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_
