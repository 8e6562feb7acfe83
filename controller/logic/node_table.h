// Nodes, their sessions, and which epoch holds which of their devices.
//
// A hold begins before the node is asked to prepare an epoch and ends with the node's own word:
// EpochEnded, or a Register that no longer lists the epoch. It also ends with the lease of a node
// that has no session: its trainers have ended themselves. Such a node can only come back with a
// Register, which lists what is nevertheless alive there; one that is silent in its session keeps
// its holds. A silent node gives no devices to anybody, however long it is silent; so two epochs
// never share a device, and no clock decides about it.
#ifndef STRATA_CONTROLLER_LOGIC_NODE_TABLE_H_
#define STRATA_CONTROLLER_LOGIC_NODE_TABLE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "controller/logic/job_entry.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::controller {

struct Hold {
  std::vector<int> devices;
  bool all_devices = false;           // which ones is not known: none of the node's is free
  std::optional<v1::StopEpoch> stop;  // asked for
  double stop_sent_at = 0;
};

struct NodeEntry {
  static constexpr size_t kMostReplaced = 16;

  std::string name;  // nodes/NAME
  std::string kind;
  int devices = 0;
  std::map<std::string, std::string> locality;
  std::string version;                         // of its agent, as it last registered
  std::string build;                           // of its trainer; empty: not known
  int64_t host_memory = 0, device_memory = 0;  // bytes, as Register has them; 0: not known
  int protocol = 1;                            // that its agent and this controller have in common
  v1::Node::State state = v1::Node::UNKNOWN;
  uint64_t incarnation = 0;
  uint64_t session = 0;  // 0: none
  uint64_t newest_session = 0;
  bool met = false;       // heard from in this controller's term
  double heard_at = 0;    // see ClusterState::ListeningNow
  double lease_from = 0;  // the same; its lease counts from the later of both
  bool gone = false;      // its lease ended while the controller did not suspect itself
  double heard_wall = 0;
  double earlier_silence = 0;    // seconds, before this controller's start
  bool silence_written = false;  // the record says since when it is silent
  int64_t resource_version = 0;
  // Durable, with the node's record; either way it takes no new ranks until it is resumed.
  bool drained = false;  // by an operator
  std::string drain_reason;
  bool quarantined = false;  // by the controller: it was to blame too often
  std::string quarantine_reason;
  bool leaving = false;       // its agent ends when it holds nothing any more; said in each session
  bool handing_over = false;  // its agent has ended, and said that a successor comes
  // The build that ranks are started with, as this node's is another: see builds.cc.
  std::string left_out_for;
  struct Blame {
    double wall = 0;  // seconds
    std::string job;  // jobs/NAME; empty: not recorded (by an earlier release)
  };
  // Devices that take no new ranks, and why, as its agent says: not durable, for the next Register
  // says it again.
  std::map<int, std::string> unhealthy;
  std::deque<Blame> failures;  // it was to blame for, in the last hour; durable too
  std::map<EpochKey, Hold> holds;
  std::deque<uint64_t> replaced;  // incarnations that may not come back
  uint8_t touched = 0;            // by Watcher: see NodeTable::TakeTouched

  bool Usable() const { return state == v1::Node::READY && session != 0; }
  bool TakesRanks() const {
    return Usable() && !drained && !quarantined && !leaving && left_out_for.empty();
  }
  // Bit d: device d is healthy and no epoch holds it; whether the node is usable or not.
  uint64_t FreeMask() const;
  std::vector<int> FreeDevices() const;
};

class NodeTable {
 public:
  // Who is to hear of nodes that may have changed.
  enum class Watcher { kScheduler, kSnapshot };

  NodeEntry& Ensure(const std::string& name);
  NodeEntry* Find(const std::string& name);
  const NodeEntry* Find(const std::string& name) const;
  NodeEntry* OfSession(uint64_t session);

  // The node and pointers to it are gone. It has no session.
  void Erase(const std::string& name);
  // The node's session from now on is this one.
  void Attach(NodeEntry& node, uint64_t session);
  void Detach(NodeEntry& node);
  // These nodes, and all that have no session, were not heard from for so much longer.
  void AddSilence(absl::Span<const uint64_t> sessions, double seconds);

  // In topology order: neighbours are close.
  const std::vector<NodeEntry*>& Ordered();
  // Localities or names have changed.
  void Reorder() {
    ordered_.clear();
    ++order_version_;
  }
  int64_t order_version() const { return order_version_; }
  const std::map<std::string, NodeEntry>& all() const { return nodes_; }
  // Whoever changes one of these touches it.
  std::map<std::string, NodeEntry>& all() { return nodes_; }

  // It changes; so do those that Ensure, Find and OfSession give out to be changed.
  void Touch(NodeEntry& node);
  // Those that may have changed since this watcher asked last; each once.
  std::vector<NodeEntry*> TakeTouched(Watcher watcher);
  // Names of those that are gone since the last call; each may be there again. For snapshots.
  std::vector<std::string> TakeErased();

 private:
  std::map<std::string, NodeEntry> nodes_;
  std::map<uint64_t, std::string> sessions_;
  std::set<NodeEntry*> detached_;    // without a session; their order means nothing
  std::vector<NodeEntry*> ordered_;  // empty: to be made
  int64_t order_version_ = 0;
  std::array<std::vector<NodeEntry*>, 2> touched_;  // by Watcher
  std::vector<std::string> erased_;
};

// The node's locality, outermost level first: region, zone, rack, domain, then other levels by
// name.
std::vector<std::string> LocalityPath(const NodeEntry& node);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_NODE_TABLE_H_
