// Nodes whose records go: at an operator's word, or after a long silence.
#ifndef STRATA_CONTROLLER_LOGIC_NODE_REMOVAL_H_
#define STRATA_CONTROLLER_LOGIC_NODE_REMOVAL_H_

#include <string>
#include <vector>

#include "controller/logic/cluster_state.h"

namespace strata::controller {

// What keeps a node from being forgotten, as the end of a sentence; empty: nothing.
std::string UseOf(const ClusterState& state, const NodeEntry& node);

// These nodes, which nothing uses, are gone, with their records; watchers are told. What they have
// of certificates stays good.
void EraseNodes(ClusterState& state, const std::vector<std::string>& names, Effects& effects);

// Forgets, some at a time, nodes without any use that are silent for longer than the policy's
// forget_node_seconds, and that neither an operator nor the controller has left out of use: what is
// known of those would be lost. Silence of an hour is written down first, so that it goes on
// counting when the controller starts anew. While the controller doubts that it hears anybody it
// does neither.
void ForgetSilentNodes(ClusterState& state, Effects& effects);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_NODE_REMOVAL_H_
