// One walk over the jobs that want to start: the rules of the queue, in their order.
#ifndef STRATA_SCHEDULER_QUEUE_PASS_H_
#define STRATA_SCHEDULER_QUEUE_PASS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduler/queue/backfill.h"
#include "scheduler/queue/board.h"
#include "scheduler/queue/order.h"
#include "scheduler/queue/preemption.h"
#include "scheduler/queue/queue.h"

namespace strata::scheduler {

class Pass {
 public:
  explicit Pass(const View& view) : board_(view), usage_(view) {}
  Decisions Run();

 private:
  // A job being considered, with what it asks for in this try.
  struct Attempt {
    Candidate candidate;
    Shape shape;                    // the job's, or with the fewer data ranks that it had last
    KindSet kinds;                  // that quotas allow
    std::optional<Blocker> excess;  // which quota allows fewer kinds than asked for
    Occupancy kept;                 // recovering: what is kept for it and usable; else empty
    double seconds = 0;

    const JobView& job() const { return *candidate.job; }
    bool recovering() const { return candidate.job->phase == JobPhase::kRecovering; }
  };
  struct Found {
    Placement placement;
    std::string why;
  };
  // What decides whether a queued job can start, beside its priority: degrees, kinds, and whether
  // it would outlast the reservation when it starts now, or soon.
  using Constraints = std::vector<TopologyConstraint>;
  using Key = std::tuple<planner::Degrees, Constraints, KindSet, bool, bool, bool>;

  // Counted when needed, and again after the board has changed.
  struct Supply {
    std::vector<int64_t> soon;  // devices by kind that are free or come free soon
    Stoppable stoppable;
  };

  // Recovering jobs have the first choice of what is free; these are then tried here.
  bool RecoverAtOnce(const Candidate& candidate);
  // Everything else, for one job.
  void Consider(const Candidate& candidate);
  Attempt AttemptOf(const Candidate& candidate) const;
  // As above, for the data degree that a recovering job ran with last where that is smaller.
  Attempt AsItRan(const Attempt& attempt) const;
  void FindKinds(Attempt& attempt) const;
  Key KeyOf(const Attempt& attempt) const;
  const Supply& SupplyNow();
  // Least priority that running jobs must have not to be stopped for the attempt's job.
  int64_t SafeFrom(const Attempt& attempt) const;
  bool EnoughByCount(const Attempt& attempt);
  bool EnoughOnceAllEnded(const Attempt& attempt);

  // Each of these tells whether the job's case is settled by it.
  bool WaitForQuota(const Attempt& attempt);
  bool StartNow(const Attempt& attempt);
  bool WaitForStopping(const Attempt& attempt);
  bool Preempt(const Attempt& attempt);
  bool TakeBackBuffer(const Attempt& attempt);
  bool Shrink(const Attempt& attempt);
  bool ReserveFor(const Attempt& attempt);
  // No end of another job helps it; settled in any case.
  void WaitForever(const Attempt& attempt);
  void Defragment();

  // Whether a start after `delay` seconds would run past the reservation's time.
  bool Outlasts(const Attempt& attempt, double delay) const;
  // What the attempt may take of free devices, or with `soon` of those too.
  static Occupancy RoomFor(const Board& board, const Attempt& attempt, bool soon,
                           const Occupancy* reserved);
  static std::optional<Found> PlaceOn(Board& board, const Attempt& attempt, const Shape& shape,
                                      const Occupancy& room);
  static std::optional<Reservation> ReservationFor(Board& board, const Attempt& attempt);
  const Occupancy* Reserved(const Attempt& attempt, double delay) const;
  const Occupancy& WithheldFrom(const Attempt& attempt, const Reservation& reservation) const;
  // Whether after the eviction the job is still the one that gets the room.
  bool StaysBehindHead(const Attempt& attempt, const Eviction& eviction);
  bool StaysBehindHead(Board& then, const Attempt& attempt, const Eviction& eviction) const;
  // Whether after the eviction head and victims all have a place.
  bool AllMove(const Attempt& head, const Eviction& eviction);
  static bool AllMove(Board& then, const Attempt& head, const Eviction& eviction);
  // For a search beside what is reserved for the head.
  Wanted WantedBy(const Attempt& attempt);
  // Stops the victims for the attempt's job; `why` of each, for people.
  void Evict(const Attempt& attempt, const Eviction& eviction,
             const std::function<std::string(const JobView&)>& why);
  void StartAt(const Attempt& attempt, const Shape& shape, Found found);
  void ClaimAt(const Attempt& attempt, const Placement& placement, Waiting waiting);
  void Wait(const JobView& job, Waiting waiting) {
    decisions_.waiting[job.name] = std::move(waiting);
  }
  // What the attempt lacks on free devices, by count; never empty.
  std::vector<Blocker> LackOf(const Attempt& attempt) const;
  Waiting Refused(const Attempt& attempt) const;

  Board board_;
  Usage usage_;
  Decisions decisions_;
  std::optional<Reservation> reservation_;
  std::optional<Attempt> head_;  // whose reservation it is
  Waiting behind_;               // what jobs behind the reservation are told
  int tried_behind_ = 0;
  std::set<Key> misses_;  // of queued jobs behind, since the board last gained devices
  // What no end of another job helps, by degrees, kinds and whether they may take the buffer.
  using NeverKey = std::tuple<planner::Degrees, Constraints, KindSet, bool>;
  NeverKey NeverKeyOf(const Attempt& attempt) const;
  std::map<NeverKey, Waiting> never_;
  std::optional<Supply> supply_;
  std::vector<int64_t> in_all_;  // devices of nodes that take ranks, by kind; empty: not counted
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_PASS_H_
