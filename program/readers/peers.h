// Whom a rank exchanges messages with.
#ifndef STRATA_PROGRAM_READERS_PEERS_H_
#define STRATA_PROGRAM_READERS_PEERS_H_

#include <vector>

#include "program/ir/mesh.h"
#include "program/ir/program.h"

namespace strata::program {

// The ranks that `rank` sends to or receives from in the programs of its stage, ascending, without
// itself: all members of the groups in which it takes part in collectives, and the other ends of
// its sends and receives.
std::vector<int> PeersOf(const ProgramSet& set, const Mesh& mesh, int rank);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_PEERS_H_
