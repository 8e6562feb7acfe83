#include "program/readers/peers.h"

#include <set>
#include <utility>

#include "program/passes/expand.h"

namespace strata::program {
namespace {

// Programs communicate in few ways, again and again.
struct Ways {
  std::set<Group> collectives;
  std::set<std::pair<Group, int>> messages;  // and the offset of the other end
};

Ways WaysOf(const ProgramSet& set) {
  Ways ways;
  for (const Program& program : set.programs) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      for (const Action& action : ExpandInstruction(set, program, static_cast<int>(i))) {
        if (!action.is_communication()) continue;
        const Communication& what = action.communication;
        if (action.mechanism == Mechanism::kCollective) {
          ways.collectives.insert(what.group);
        } else {
          ways.messages.insert({what.group, what.peer_offset});
        }
      }
    }
  }
  return ways;
}

}  // namespace

std::vector<int> PeersOf(const ProgramSet& set, const Mesh& mesh, int rank) {
  const Ways ways = WaysOf(set);
  std::set<int> peers;
  for (const Group group : ways.collectives) {
    const std::vector<int> members = mesh.Members(group, rank);
    peers.insert(members.begin(), members.end());
  }
  for (const auto& [group, offset] : ways.messages) {
    const std::vector<int> members = mesh.Members(group, rank);
    const int size = static_cast<int>(members.size()), index = mesh.IndexIn(group, rank);
    if (index >= 0) peers.insert(members[((index + offset) % size + size) % size]);
  }
  peers.erase(rank);
  return {peers.begin(), peers.end()};
}

}  // namespace strata::program
