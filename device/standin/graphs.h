// CUDA graphs: calls recorded as operations with dependencies, launched again and again.
//
// A launch puts each operation on one of the graph's own streams, behind those it depends on and
// nothing else, so that every order that the graph allows can happen.
#ifndef STRATA_DEVICE_STANDIN_GRAPHS_H_
#define STRATA_DEVICE_STANDIN_GRAPHS_H_

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/standin/streams.h"

namespace strata::standin {

struct Graph {
  struct Node {
    std::string name;
    ActionMaker make;
    std::string label;
    std::set<int> after;  // nodes
  };
  std::vector<Node> nodes;
};

// What is being recorded.
struct Capture {
  Graph* graph;
  const Stream* origin;
  bool relaxed = false;  // calls that a capture forbids are allowed
  bool is_invalid = false;
  std::map<Stream*, std::set<int>> last;  // by stream: the nodes its next one depends on

  void Add(Stream& stream, std::string name, ActionMaker make);
  // Whether all that was recorded comes before the end of the origin.
  bool IsJoined() const;
};

class GraphExecution {
 public:
  GraphExecution(const Graph& graph, Streams& streams);
  void Launch(Stream& stream);

 private:
  Graph graph_;
  Streams& streams_;
  std::vector<Stream*> lanes_;
  std::vector<int> lane_of_;  // by node
  Mark end_;                  // of the last launch
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_GRAPHS_H_
