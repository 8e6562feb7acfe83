// Which bytes are taken at which list positions.
#ifndef STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_
#define STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_

#include <cstdint>
#include <vector>

namespace strata::program {

struct ByteRange {
  int64_t begin = 0, end = 0;
};

// A segment tree over list positions; each node keeps sorted ranges that do not touch.
class TakenSpace {
 public:
  explicit TakenSpace(int positions);

  // Takes the bytes at positions first … last.
  void Take(int first, int last, ByteRange bytes);
  // Appends what is taken at any of the positions: in no order, possibly more than once.
  void Collect(int first, int last, std::vector<ByteRange>& taken) const;

 private:
  using Ranges = std::vector<ByteRange>;
  struct Node {
    Ranges whole;  // taken at each position below this node
    Ranges some;   // taken at one position below it, or more
  };
  static void Insert(Ranges& ranges, ByteRange bytes);

  int leaves_;
  std::vector<Node> nodes_;  // 1 is the root; 2i and 2i + 1 are below i
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_TAKEN_SPACE_H_
