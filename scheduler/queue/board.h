// The moment as one call of Decide changes it: which devices are free, which come free soon, who
// holds the rest and until when.
#ifndef STRATA_SCHEDULER_QUEUE_BOARD_H_
#define STRATA_SCHEDULER_QUEUE_BOARD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/queue/buffer.h"
#include "scheduler/queue/queue.h"

namespace strata::scheduler {

// Sets of devices. Indices that the cluster does not have are passed over; Put passes over nodes
// that take no new ranks.
void Put(const topology::Cluster& cluster, const std::vector<Device>& devices, Occupancy& into);
void Take(const std::vector<Device>& devices, Occupancy& from);
Occupancy Union(const Occupancy& a, const Occupancy& b);
Occupancy Minus(const Occupancy& a, const Occupancy& b);
bool Touches(const std::vector<Device>& devices, const Occupancy& set);

// Until the ranks of a job that was told to stop are gone, about.
inline constexpr double kStopSeconds = 10;

// By index into Board::kinds(): whether a job may use devices of the kind.
using KindSet = std::vector<char>;

// Who has devices, and until when by estimate. Recovering jobs hold what is kept for them.
struct Holder {
  const JobView* job = nullptr;
  double until = 0;
  std::vector<Device> devices;
};

// Finds a place for a job on a set of devices.
using Placer = std::function<std::optional<Placement>(const Occupancy&)>;

class Board {
 public:
  explicit Board(const View& view);

  const View& view() const { return *view_; }
  const topology::Cluster& cluster() const { return *view_->cluster; }
  const Occupancy& free() const { return free_; }  // a job may start on them now
  // Of jobs that were told to stop: seconds away. Disjoint from free().
  const Occupancy& soon() const { return soon_; }
  const std::vector<Holder>& stopping() const { return stopping_; }  // whose soon() are or were
  // Of everything else that is held; by name of job.
  const std::vector<Holder>& holders() const { return holders_; }
  const Holder* HolderOf(const JobView& job) const;

  const std::vector<std::string>& kinds() const { return kinds_; }
  int KindOfNode(int node) const { return kind_of_node_[node]; }
  // Those that the shape's device asks for.
  KindSet Matching(const Shape& shape) const;
  std::vector<int64_t> CountByKind(const Occupancy& set) const;
  // Most devices of one kind of the set.
  static int64_t MostOf(const std::vector<int64_t>& by_kind, const KindSet& kinds);

  // Ranks that lost their node, and preemptible jobs.
  bool MayTakeBuffer(const JobView& job) const;
  // What of the room is not held back from the job.
  Occupancy For(const JobView& job, const Occupancy& room) const;
  // Nobody borrows these devices of the buffer: a claim would no longer fit.
  void KeepInBuffer(const Occupancy& devices) { not_lent_ = Union(not_lent_, devices); }
  BufferNodes BufferNow() const;

  // scheduler::Place on the room's devices of these kinds that are not held back from the job; on
  // nodes that are nobody's spares where that is possible. Counts devices first.
  std::optional<Placement> Fit(const JobView& job, const Shape& shape, const Occupancy& room,
                               const KindSet& kinds);
  // Without nodes that other kinds than these have, or that are other jobs' spares.
  Occupancy OfKinds(const Occupancy& room, const KindSet& kinds) const;

  // The job starts now, on free devices and what is kept for it. What was kept and is not used is
  // soon free: the next view says whether it is.
  void Start(const JobView& job, const Placement& placement, double seconds);
  // The job will start on free and soon free devices; nobody else gets them before.
  void Claim(const JobView& job, const Placement& placement, double seconds);
  // A running job is told to stop.
  void Stop(const JobView& job);

  // Searching for better than what is free costs time: it ends when a number of nodes have been
  // visited, by whatever search. Deterministic.
  bool MaySearch() const { return effort_ > 0; }
  void Visit(int64_t nodes) { effort_ -= nodes; }
  // What was tried on a copy of this board has cost as much.
  void VisitedAs(const Board& copy) { effort_ = copy.effort_; }

 private:
  std::vector<Holder>::iterator FindHolder(const JobView& job);
  bool LeaveSpares(const JobView& job, Occupancy& room) const;

  const View* view_;
  Buffer buffer_;
  Occupancy not_lent_;
  Occupancy free_;
  Occupancy soon_;
  std::vector<Holder> holders_;
  std::vector<Holder> stopping_;
  std::vector<std::string> kinds_;
  std::vector<int> kind_of_node_;
  struct SpareNode {
    int node = 0;
    const JobView* of = nullptr;
  };
  std::vector<SpareNode> spares_;
  int64_t effort_;
};

// How long it runs from now on, or from its start when it does not run; see unknown_run_seconds.
double SecondsLeft(const View& view, const JobView& job);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_BOARD_H_
