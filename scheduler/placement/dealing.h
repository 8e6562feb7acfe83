// Hands out runs of a numbering among children of limited capacity.
#ifndef STRATA_SCHEDULER_PLACEMENT_DEALING_H_
#define STRATA_SCHEDULER_PLACEMENT_DEALING_H_

#include <span>
#include <vector>

#include "scheduler/placement/tiling.h"

namespace strata::scheduler {

// What children can take: cells, in separate pools that nothing indivisible may span (the groups of
// the pipeline level inside a child; one pool where it lies inside such a group itself).
struct Children {
  std::vector<int> pools;  // child by child
  std::vector<int> ends;   // of each child's pools

  int count() const { return static_cast<int>(ends.size()); }
};

// What each child got.
struct Shares {
  std::vector<Run> runs;   // child by child, in the order in which they were dealt
  std::vector<int> first;  // of a child; one more than there are children

  std::span<const Run> Of(int child) const {
    return {runs.data() + first[child], runs.data() + first[child + 1]};
  }
};

// Reused from one numbering to the next, so that dealing allocates nothing.
class Dealer {
 public:
  explicit Dealer(const Children& children) : children_(children) {}

  // First whole tiles, then ever smaller units. Where there is more room than units, the fewest
  // children get them: the largest first, the last one the tightest; `even`: the same children, as
  // equal as their capacities allow. The order among tiles makes no difference. The children
  // together hold the cells.
  void Deal(const Tiling& tiling, bool even);

  const Shares& shares() const { return shares_; }
  // Cells that were dealt by each of the tiling's units.
  const std::vector<int>& dealt() const { return dealt_; }
  // Whether there was anything to choose; if not, `even` makes no difference.
  bool chose() const { return chose_; }

 private:
  struct Piece {
    int child = 0;
    Run run;
  };

  void DealUnits(int unit, int needed);
  void Choose(int needed);
  void Even(int needed);
  void Take(int child, int unit, int units);
  void Gather();

  const Children& children_;
  bool even_ = false;
  bool chose_ = false;
  int at_ = 0;
  std::vector<int> left_;    // of the pools
  std::vector<int> share_;   // units by child
  std::vector<int> chosen_;  // of them
  std::vector<int> order_;
  std::vector<Piece> pieces_;  // in the order of dealing
  std::vector<int> last_;      // piece of a child, -1 without one
  std::vector<int> dealt_;
  Shares shares_;
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_DEALING_H_
