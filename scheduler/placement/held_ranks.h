// A job's ranks after some were lost, and the devices that are free beside them.
#ifndef STRATA_SCHEDULER_PLACEMENT_HELD_RANKS_H_
#define STRATA_SCHEDULER_PLACEMENT_HELD_RANKS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

class HeldRanks {
 public:
  // `ranks`: canonically numbered, node -1 for lost ones. `free`: of the job's kind, without
  // theirs.
  HeldRanks(const topology::Cluster& cluster, const Rails& rails, std::vector<Device> ranks,
            std::vector<uint64_t> free)
      : cluster_(cluster), rails_(rails), ranks_(std::move(ranks)), free_(std::move(free)) {}

  const std::vector<Device>& ranks() const { return ranks_; }
  const std::vector<uint64_t>& free() const { return free_; }
  // Of a cell that is whole or lost; of one on several nodes the first one's.
  int NodeOf(int cell) const { return ranks_[First(cell)].node; }

  // Whether these rails explain where the ranks are that were not lost.
  bool AreOnRails() const;
  // Cells that lost some of their devices get others of the same node, then of the same domain
  // (`preferred` nodes first); where there are none the whole cell is lost.
  void MendCells(const std::vector<char>& preferred);
  // Its devices become free.
  void Lose(int cell);
  // `devices`: as many as a cell has.
  void Put(int cell, const Device* devices);

 private:
  size_t First(int cell) const { return static_cast<size_t>(cell) * rails_.tensor; }
  bool Mend(int cell, int kept, const std::vector<char>& preferred);
  Device TakeFromRail(const std::vector<int>& nodes, int rail);

  const topology::Cluster& cluster_;
  Rails rails_;
  std::vector<Device> ranks_;
  std::vector<uint64_t> free_;
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_HELD_RANKS_H_
