// The buffer: nodes of every group of a level that no start takes, so that ranks which lose their
// node find another at once. Which nodes they are follows from the moment alone.
#ifndef STRATA_SCHEDULER_QUEUE_BUFFER_H_
#define STRATA_SCHEDULER_QUEUE_BUFFER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/queue/queue.h"

namespace strata::scheduler {

class Buffer {
 public:
  // None without a policy, or where the cluster has no such level. Borrowed: cluster.
  Buffer(const topology::Cluster* cluster, const std::optional<BufferPolicy>& policy);

  bool any() const { return !parts_.empty(); }
  // What is left of the room for those who may not take the buffer: without the nodes of each group
  // and kind that are free for the most part, of equal ones the last in topology order. More room
  // never leaves fewer devices.
  Occupancy Without(const Occupancy& room) const;
  // Of the nodes held back: those that are wholly in the room, and, in the place of those that are
  // not, others that would be if `lendable` devices were given back. `missing` counts the rest.
  BufferNodes NodesOf(const Occupancy& room, const Occupancy& lendable) const;

 private:
  // The nodes of one kind in one group.
  struct Part {
    std::vector<int> nodes;
    int64_t held_back = 0;
  };
  // Of the part's nodes with devices in the room, those that are held back.
  static std::vector<int> HeldBack(const Part& part, const Occupancy& room);

  const topology::Cluster* cluster_;
  std::vector<Part> parts_;
};

// Whether it may borrow the buffer: its queue says so, or the job itself.
bool IsPreemptible(const Policy& policy, const JobView& job);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_BUFFER_H_
