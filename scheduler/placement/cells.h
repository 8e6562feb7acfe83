// Cells: sets of devices that each hold one tensor group, formed from the devices that are free.
#ifndef STRATA_SCHEDULER_PLACEMENT_CELLS_H_
#define STRATA_SCHEDULER_PLACEMENT_CELLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Which device of a node holds which tensor coordinate: coordinate t needs a device whose index is
// first + t % chunk modulo the tensor degree, on every node. So a cell takes tensor / chunk devices
// of each of `chunk` rails.
struct Rails {
  int tensor = 1;
  int chunk = 1;  // divides tensor; 0: unequally many of the rails, see FormUnevenCells
  int first = 0;  // of the rails used
  bool spans =
      false;      // cells may lie on several nodes of a domain; else each on one (chunk = tensor)
  int piece = 1;  // divides chunk: so many consecutive coordinates of a cell share a node

  // The rail of a device, -1 when cells do not use it.
  int RailOf(int device) const {
    const int rail = device % tensor - first;
    return rail >= 0 && rail < chunk ? rail : -1;
  }
};

// In order of preference: whole cells on nodes; then cells over several nodes of a domain, by the
// largest chunks first.
std::vector<Rails> RailsToTry(const topology::Cluster& cluster, const std::string& kind,
                              int64_t tensor);

// All cells that free devices form, in topology order.
struct Cells {
  Rails rails;
  // Cells whose first device is on node n: [first[n], first[n + 1]).
  std::vector<int> first;
  std::vector<Device> devices;  // of cell i: [i · tensor, (i + 1) · tensor), by coordinate

  int count() const { return first.back(); }
  int CountIn(int first_node, int end_node) const { return first[end_node] - first[first_node]; }
};

// `free`: usable devices by node, of the wanted kind alone.
Cells FormCells(const topology::Cluster& cluster, const std::vector<uint64_t>& free,
                const Rails& rails);

// Cells that take unequally many devices of the rails (rails.chunk is 0): more of them fit where
// some devices of a domain are not free. Which rails and how many of each is searched for, within a
// budget. None where they cannot be `at_least` so many.
Cells FormUnevenCells(const topology::Cluster& cluster, const std::vector<uint64_t>& free,
                      int64_t tensor, int64_t at_least);

// The occupancy without nodes of other kinds.
std::vector<uint64_t> FreeOfKind(const topology::Cluster& cluster, const Occupancy& occupancy,
                                 const std::string& kind);
// Kinds that `device` stands for, in the order of their names: itself, or for "gpu" all but cpu.
std::vector<std::string> KindsFor(const topology::Cluster& cluster, const std::string& device);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_CELLS_H_
