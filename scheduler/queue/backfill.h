// Conservative backfill: when and where the first job that has to wait can start, so that later
// jobs start before it only where they do not delay it. After Lifka, "The ANL/IBM SP scheduling
// system", JSSPP 1995 (one reservation, for the head of the queue).
#ifndef STRATA_SCHEDULER_QUEUE_BACKFILL_H_
#define STRATA_SCHEDULER_QUEUE_BACKFILL_H_

#include <optional>
#include <string>
#include <vector>

#include "scheduler/queue/board.h"

namespace strata::scheduler {

struct Reservation {
  const JobView* job = nullptr;
  int64_t priority = 0;  // effective
  double at = 0;         // when the last of the devices comes free, by estimate
  Placement placement;
  Occupancy devices;      // the placement's
  Occupancy with_buffer;  // and those that the buffer has to have then, for it to fit
  // Whose ends it waits for, in order of time.
  std::vector<Holder> needs;
};

// The earliest estimated time at which the job fits, as holders' jobs end one after another: `room`
// is what it could take now or soon. `fewest` devices of one of these kinds have to be there before
// it is worth while to place. Nothing: not even when all have ended.
std::optional<Reservation> Reserve(Board& board, const JobView& job, const Occupancy& room,
                                   const KindSet& kinds, int64_t fewest, const Placer& place);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_BACKFILL_H_
