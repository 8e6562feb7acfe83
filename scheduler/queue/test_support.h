// Scenes for tests of the queue: a small cluster, jobs on it, and what must hold of any decision.
#ifndef STRATA_SCHEDULER_QUEUE_TEST_SUPPORT_H_
#define STRATA_SCHEDULER_QUEUE_TEST_SUPPORT_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/queue/queue.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Domains of nodes of devices: nodes n0, n1, … in domains d0, d1, …, all of kind h100 unless told.
class Scene {
 public:
  Scene(int domains, int nodes, int devices);
  // Of nodes, before the first job runs. and health, before the first job runs.
  void SetKind(int node, const std::string& kind);
  void SetHealthy(int node, bool healthy);

  // A queued job of `ranks` data-parallel ranks, `tensor` to a tensor group; in order of the calls.
  JobView& Queue(const std::string& name, int64_t ranks, int64_t tensor = 1);
  // A running one, since 1000 s, with a checkpoint just now: on these devices, node by node.
  JobView& Run(const std::string& name, const std::vector<Device>& devices);
  // Likewise on all devices of these nodes.
  JobView& RunOn(const std::string& name, const std::vector<int>& nodes);
  // Its ranks failed 1 s ago.
  JobView& Recover(const std::string& name, const std::vector<Device>& devices);
  Shape& ShapeOf(const std::string& name);
  JobView& Job(const std::string& name);

  // With the devices that no job has as its occupancy.
  const View& Now();
  Decisions Decide() { return scheduler::Decide(Now()); }

  // As an acting controller: starts run from now on, victims stop; recovering jobs' rest is free.
  void Apply(const Decisions& decisions);
  // All stopping jobs are queued again.
  void EndStopping();
  void End(const std::string& name);
  void Pass(double seconds);  // of time; jobs with known time left have that much less

  View view;

 private:
  topology::Description description_;
  topology::Cluster cluster_;
  std::deque<std::pair<std::string, Shape>> shapes_;
  int64_t submitted_ = 0;
  int devices_;
};

const Start* StartOf(const Decisions& decisions, const std::string& job);
bool Preempts(const Decisions& decisions, const std::string& victim, const std::string& by);
// Nodes of its ranks, ascending, each once.
std::vector<int> NodesOf(const Placement& placement);

// What must hold of every decision on every view; empty when it does, else what is broken.
std::string Broken(const View& view, const Decisions& decisions);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_TEST_SUPPORT_H_
