#include "controller/logic/node_table.h"

#include <algorithm>
#include <utility>

#include "topology/cluster.h"

namespace strata::controller {
namespace {

bool Before(const NodeEntry* a, const NodeEntry* b) {
  const std::vector<std::string> path_a = LocalityPath(*a), path_b = LocalityPath(*b);
  if (path_a != path_b) {
    return std::lexicographical_compare(path_a.begin(), path_a.end(), path_b.begin(), path_b.end(),
                                        topology::NaturalLess);
  }
  return topology::NaturalLess(a->name, b->name);
}

}  // namespace

uint64_t NodeEntry::FreeMask() const {
  uint64_t free = devices >= topology::kMostDevices ? ~uint64_t{0} : (uint64_t{1} << devices) - 1;
  for (const auto& [device, why] : unhealthy) free &= ~(uint64_t{1} << device);
  for (const auto& [key, hold] : holds) {
    if (hold.all_devices) return 0;
    for (const int device : hold.devices) free &= ~(uint64_t{1} << device);
  }
  return free;
}

std::vector<int> NodeEntry::FreeDevices() const {
  std::vector<int> free;
  const uint64_t mask = FreeMask();
  for (int device = 0; device < topology::kMostDevices; ++device) {
    if ((mask >> device & 1) != 0) free.push_back(device);
  }
  return free;
}

NodeEntry& NodeTable::Ensure(const std::string& name) {
  const auto [found, added] = nodes_.try_emplace(name);
  if (added) {
    found->second.name = name;
    detached_.insert(&found->second);
    Reorder();
  }
  Touch(found->second);
  return found->second;
}

NodeEntry* NodeTable::Find(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return nullptr;
  Touch(found->second);
  return &found->second;
}

void NodeTable::Touch(NodeEntry& node) {
  for (size_t watcher = 0; watcher < touched_.size(); ++watcher) {
    const auto bit = static_cast<uint8_t>(1u << watcher);
    if ((node.touched & bit) != 0) continue;
    node.touched |= bit;
    touched_[watcher].push_back(&node);
  }
}

std::vector<NodeEntry*> NodeTable::TakeTouched(Watcher watcher) {
  const auto at = static_cast<size_t>(watcher);
  for (NodeEntry* node : touched_[at]) node->touched &= static_cast<uint8_t>(~(1u << at));
  return std::exchange(touched_[at], {});
}

std::vector<std::string> NodeTable::TakeErased() { return std::exchange(erased_, {}); }

const NodeEntry* NodeTable::Find(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

NodeEntry* NodeTable::OfSession(uint64_t session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : Find(found->second);
}

void NodeTable::Erase(const std::string& name) {
  NodeEntry* node = Find(name);
  if (node == nullptr) return;
  detached_.erase(node);
  for (auto& touched : touched_) std::erase(touched, node);
  erased_.push_back(name);
  nodes_.erase(name);
  Reorder();
}

void NodeTable::Attach(NodeEntry& node, uint64_t session) {
  Detach(node);
  Touch(node);
  node.session = node.newest_session = session;
  sessions_[session] = node.name;
  detached_.erase(&node);
}

void NodeTable::Detach(NodeEntry& node) {
  Touch(node);
  sessions_.erase(node.session);
  node.session = 0;
  detached_.insert(&node);
}

void NodeTable::AddSilence(absl::Span<const uint64_t> sessions, double seconds) {
  const auto add = [seconds](NodeEntry& node) {
    node.heard_at -= seconds;
    node.lease_from -= seconds;
  };
  for (NodeEntry* node : detached_) add(*node);
  for (const uint64_t session : sessions) {
    if (NodeEntry* node = OfSession(session); node != nullptr) add(*node);
  }
}

const std::vector<NodeEntry*>& NodeTable::Ordered() {
  if (ordered_.empty()) {
    for (auto& [name, node] : nodes_) ordered_.push_back(&node);
    std::sort(ordered_.begin(), ordered_.end(), Before);
  }
  return ordered_;
}

std::vector<std::string> LocalityPath(const NodeEntry& node) {
  std::vector<std::string> path;
  const std::vector<std::string> known = {"region", "zone", "rack", "domain"};
  for (const std::string& level : known) {
    const auto found = node.locality.find(level);
    if (found != node.locality.end()) path.push_back(found->second);
  }
  for (const auto& [level, value] : node.locality) {
    if (std::find(known.begin(), known.end(), level) == known.end()) path.push_back(value);
  }
  return path;
}

}  // namespace strata::controller
