// Places for jobs whose ranks failed: as much as possible stays where it was.
#ifndef STRATA_SCHEDULER_QUEUE_RECOVERY_H_
#define STRATA_SCHEDULER_QUEUE_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/queue/board.h"

namespace strata::scheduler {

// The shape with data · replicate = data: shard groups keep their size where it divides.
Shape WithData(const Shape& shape, int64_t data);
// data · replicate of a shape, or of a placement of so many ranks of it.
int64_t DataOf(const Shape& shape);
int64_t DataOf(const Shape& shape, int64_t ranks);

// The held placement with node -1 for ranks that need a new device; with the data degree of
// `shape`, which may be smaller: then the data coordinates that lost the fewest ranks are left.
Placement Survivors(const Board& board, const JobView& job, const Shape& shape);

struct Restored {
  Placement placement;
  std::string why;
};
// On a room that has what is kept for the job: lost ranks alone move, to its spares first; else
// anew, anywhere. `shape` has the job's degrees or fewer in data.
std::optional<Restored> Restore(Board& board, const JobView& job, const Shape& shape,
                                const Occupancy& room, const KindSet& kinds);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_RECOVERY_H_
