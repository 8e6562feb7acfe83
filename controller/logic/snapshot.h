// The cluster at one moment, for readers: immutable, so any thread reads it while the writer goes
// on. A new one shares all records that have not changed with the one before.
#ifndef STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_
#define STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/logic/shared_table.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/records.pb.h"
#include "scheduler/queue/queue.h"
#include "topology/cluster.h"

namespace strata::controller {

struct SnapshotNode {
  v1::Node shown;         // but for the time of its last heartbeat
  std::vector<int> free;  // devices that no epoch holds
  bool takes_ranks = false;
  std::shared_ptr<const std::atomic<double>> heard_wall;  // goes on changing; 0: never
};

struct Snapshot {
  struct JobKey {
    static const std::string& KeyOf(const v1::JobRecord& job) { return job.name(); }
  };
  struct NodeKey {
    static const std::string& KeyOf(const SnapshotNode& node) { return node.shown.name(); }
  };

  int64_t resource_version = 0;
  int64_t controller_term = 0;
  double wall = 0;  // of the last tick
  SharedTable<v1::JobRecord, JobKey> jobs;
  SharedTable<SnapshotNode, NodeKey> nodes;
  std::shared_ptr<const std::vector<std::string>> node_order;  // topology order
  // Why queued jobs wait, by jobs/NAME, as of the last decision about each.
  std::shared_ptr<const std::map<std::string, std::string>> waiting;
  std::shared_ptr<const std::set<std::string>> buffer;  // nodes/NAME of scheduling.buffer
  std::shared_ptr<const topology::Description> map;     // levels and links, without nodes
};

// As users see them.
v1::Job ShowJob(const Snapshot& snapshot, const v1::JobRecord& job);
v1::Node ShowNode(const Snapshot& snapshot, const SnapshotNode& node);
v1::Topology ShowTopology(const Snapshot& snapshot);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SNAPSHOT_H_
