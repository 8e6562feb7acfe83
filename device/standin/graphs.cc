#include "device/standin/graphs.h"

#include <utility>

namespace strata::standin {

void Capture::Add(Stream& stream, std::string name, ActionMaker make) {
  std::set<int>& after = last[&stream];
  const int node = static_cast<int>(graph->nodes.size());
  graph->nodes.push_back({std::move(name), std::move(make), ThreadLabel().text, after});
  after = {node};
}

bool Capture::IsJoined() const {
  std::set<int> joined;
  std::vector<int> open;
  for (const auto& [stream, nodes] : last) {
    if (stream == origin) open.assign(nodes.begin(), nodes.end());
  }
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (!joined.insert(node).second) continue;
    open.insert(open.end(), graph->nodes[node].after.begin(), graph->nodes[node].after.end());
  }
  return joined.size() == graph->nodes.size();
}

// A node goes on the lane of one that it follows, if no other has; else on a new one.
GraphExecution::GraphExecution(const Graph& graph, Streams& streams)
    : graph_(graph), streams_(streams) {
  std::vector<int> tails;  // by lane: its last node
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    int lane = -1;
    for (const int before : graph_.nodes[i].after) {
      if (tails[lane_of_[before]] == before) lane = lane_of_[before];
    }
    if (lane < 0) {
      lane = static_cast<int>(tails.size());
      tails.push_back(0);
      lanes_.push_back(streams_.Create());
    }
    tails[lane] = static_cast<int>(i);
    lane_of_.push_back(lane);
  }
}

void GraphExecution::Launch(Stream& stream) {
  streams_.Wait(stream, end_);  // one launch of a graph at a time
  const Mark begin = streams_.End(stream);
  for (Stream* const lane : lanes_) streams_.Wait(*lane, begin);
  std::vector<Mark> done;
  const std::string launcher = ThreadLabel().text;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    Stream& lane = *lanes_[lane_of_[i]];
    for (const int before : graph_.nodes[i].after) streams_.Wait(lane, done[before]);
    ThreadLabel().text = graph_.nodes[i].label;
    done.push_back(streams_.Put(lane, graph_.nodes[i].name, graph_.nodes[i].make()));
  }
  ThreadLabel().text = launcher;
  for (Stream* const lane : lanes_) streams_.Wait(stream, streams_.End(*lane));
  end_ = streams_.End(stream);
}

}  // namespace strata::standin
