// Words for people: why a job waits and what it waits for.
#ifndef STRATA_SCHEDULER_QUEUE_REASONS_H_
#define STRATA_SCHEDULER_QUEUE_REASONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/queue/backfill.h"
#include "scheduler/queue/board.h"

namespace strata::scheduler {

// "n1, n2, n3 and 5 more", in topology order, each once.
std::string NodesText(const topology::Cluster& cluster, std::vector<int> nodes);
std::string NodesText(const topology::Cluster& cluster, const Placement& placement);
// "a (24 devices, 40 s left), b (8 devices, 2 min left) and 3 more".
std::string HoldersText(const Board& board, const std::vector<Holder>& holders);
// "needs 8 h100 devices, 3 are free".
std::string CountText(const Board& board, const Shape& shape, const Occupancy& room,
                      const KindSet& kinds);

// "8 more are held back by scheduling.buffer" for these devices of the kinds, or nothing.
std::string HeldBackText(const Board& board, const Occupancy& held_back, const KindSet& kinds);

// The blockers' texts, joined.
std::string ReasonOf(const std::vector<Blocker>& blockers);

// A job that starts as soon as the stopping ones on its devices are gone.
Waiting WaitsForStopping(const Board& board, const Placement& placement);
Waiting WaitsForVictims(const Board& board, const std::vector<const JobView*>& victims);
// The head of the queue.
Waiting WaitsForReservation(const Board& board, const Reservation& reservation,
                            std::vector<Blocker> lack);
// A job behind it.
Waiting WaitsBehind(const Board& board, const Reservation& reservation);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_REASONS_H_
