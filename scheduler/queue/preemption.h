// Which running jobs to stop so that a waiting one fits.
#ifndef STRATA_SCHEDULER_QUEUE_PREEMPTION_H_
#define STRATA_SCHEDULER_QUEUE_PREEMPTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "scheduler/queue/board.h"

namespace strata::scheduler {

// A running job that may be stopped.
struct Victim {
  const Holder* holder = nullptr;
  int64_t priority = 0;       // effective
  double device_seconds = 0;  // work lost: since its newest checkpoint, on all its devices
};
// Running jobs of which `may_stop` says so for their effective priority, and that ran for
// min_run_seconds; cheapest work per device first, then younger, then by name.
std::vector<Victim> VictimsOf(const Board& board, const std::function<bool(int64_t)>& may_stop);

// Preemptible jobs on nodes of the buffer, in the same order: they give them back to
// ranks that lost theirs, whatever the priorities and however short they ran.
std::vector<Victim> BorrowersOf(const Board& board);

// Devices, by kind, of running jobs that may be stopped for a job of a priority: what a search can
// hope for, told without one.
class Stoppable {
 public:
  explicit Stoppable(const Board& board);
  // Of jobs of a lower effective priority than this; by index into the board's kinds. Null: none.
  const std::vector<int64_t>* Below(int64_t priority) const;

 private:
  std::vector<int64_t> priorities_;            // ascending
  std::vector<std::vector<int64_t>> by_kind_;  // of the jobs up to the one of that index
};

struct Eviction {
  std::vector<const JobView*> victims;  // by name
  double device_seconds = 0;            // of work lost
  Placement placement;                  // of the job they make room for
};

// What a search needs to know of the job that wants room.
struct Wanted {
  Occupancy room;       // what it may take without stopping anybody
  Occupancy forbidden;  // what it must not take, whoever stops; empty: nothing
  Occupancy kept;       // part of the room that it keeps wherever the rest goes; empty: nothing
  KindSet kinds;
  int64_t devices = 0;  // least beside what it keeps, of one kind
  // What others stop holding may have to fill the buffer first: also a victim whose devices the
  // job does not take itself may be needed.
  bool fills_buffer = false;
  Placer place;
  // Whether an eviction that makes it fit is good for the others too; none: any is.
  std::function<bool(const Eviction&)> accept = nullptr;
};

// Topology first: from the innermost level of the tree outwards, the first level with a group in
// which stopping victims makes the job fit. Among that level's groups: least work lost, then fewer
// victims, then younger ones, then the first in topology order. No victim of the answer can be left
// out. At most `most` of them. Bounded: per level only the groups that look cheapest by device
// counts are placed in.
std::optional<Eviction> FindEviction(Board& board, const std::vector<Victim>& victims,
                                     const Wanted& wanted, size_t most);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_PREEMPTION_H_
