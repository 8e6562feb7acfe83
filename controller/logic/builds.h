// Which build of the trainer ranks are started with. Ranks of one job must be of one build, and
// during an upgrade a cluster has two: then new ranks go to nodes of the build that most devices of
// their kind have, until its other nodes are upgraded too. Ranks that run stay where they are.
// Nodes that tell no build, as those without a trainer, count only where none does.
#ifndef STRATA_CONTROLLER_LOGIC_BUILDS_H_
#define STRATA_CONTROLLER_LOGIC_BUILDS_H_

#include <map>
#include <string>
#include <vector>

#include "controller/logic/node_table.h"

namespace strata::controller {

// Sets NodeEntry::left_out_for of all nodes; those of which it has changed. `chosen`: the build of
// each kind of device, as it was and as it is now; it stays while no other one has more devices.
std::vector<NodeEntry*> ChooseBuilds(NodeTable& nodes, std::map<std::string, std::string>& chosen);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_BUILDS_H_
