// What a rank of a job may have on any node that may run it, as nodes have told of their memory.
#ifndef STRATA_PLANNER_SEARCH_RANK_ROOM_H_
#define STRATA_PLANNER_SEARCH_RANK_ROOM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "proto/strata/v1/cluster.pb.h"

namespace strata::planner {

struct RankRoom {
  // Bytes; 0: not known.
  int64_t host = 0;
  int64_t device = 0;       // of an accelerator
  std::string host_node;    // NAME of the one that has so little
  std::string device_node;  // likewise
  std::string kind;         // of that one's devices
};

// Makes it the least of itself and of what `node` has for each of as many of the job's `ranks` as
// it has devices. `device`: as the job asks for it ("cpu", "gpu", a kind). Nodes of other kinds,
// and what they do not tell of, change nothing; whether a node is there or drained does not count,
// as it may be back before the job's ranks are placed.
void TakeLeast(const v1::Node& node, const std::string& device, int64_t ranks, RankRoom& room);

// Asks the nodes that there are for the least. Null: nobody can be asked.
using AskRoom = std::function<RankRoom(const std::string& device, int64_t ranks)>;

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_RANK_ROOM_H_
