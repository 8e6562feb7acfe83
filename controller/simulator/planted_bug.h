// Faults that a simulation can be given, to prove that its invariants see them.
#ifndef STRATA_CONTROLLER_SIMULATOR_PLANTED_BUG_H_
#define STRATA_CONTROLLER_SIMULATOR_PLANTED_BUG_H_

namespace strata::simulator {

enum class PlantedBug {
  kNone,
  kLeavesOutARank,      // an agent says that a rank runs which it never started
  kConfirmsTooEarly,    // an agent says that ranks have ended which hold their devices for long
  kMisplacesNodes,      // the controller is told wrong domains of some nodes
  kMisplacesZones,      // … wrong zones
  kCommitsForOthers,    // what an old epoch wrote is committed as the present one's
  kForgetsReturns,      // nodes that were away are not heard when they are back
  kSkipsCheckpoints,    // ranks save every fourth time only
  kForgetsCheckpoints,  // the store now and then loses a job's record
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_PLANTED_BUG_H_
