// Makes things break, and repairs them.
#ifndef STRATA_CONTROLLER_SIMULATOR_FAULTS_H_
#define STRATA_CONTROLLER_SIMULATOR_FAULTS_H_

#include <vector>

#include "controller/simulator/failures.h"
#include "controller/simulator/fleet.h"
#include "topology/cluster.h"

namespace strata::simulator {

struct World;

class Faults {
 public:
  explicit Faults(World& world) : world_(world) {}
  void Begin();
  // Nodes that share the innermost switch with this one, itself included.
  const std::vector<int>& NeighboursOf(int node) const { return neighbours_[group_of_[node]]; }

 private:
  void FindNeighbours();
  void PlanFailure();
  void PlanControllerEnd();
  void Strike(SimNode& node, int cause);
  void KillProcess(SimNode& node, int cause, bool leaves);
  void Hang(SimNode& node, int cause);
  void LosePower(SimNode& node, int cause);
  void LoseSwitch(SimNode& node, int cause);
  void Isolate(SimNode& node, int cause, double seconds);
  void Maintain(SimNode& node, int cause);
  void TakeAway(SimNode& node, int cause);
  void BreakAll(SimNode& node, int cause);
  double RepairSeconds(int cause);
  void BootAfter(SimNode& node, double seconds, bool drained);

  World& world_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<int> group_of_;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_FAULTS_H_
