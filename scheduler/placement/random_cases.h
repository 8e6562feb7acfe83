// Random clusters and jobs for tests of placement.
#ifndef STRATA_SCHEDULER_PLACEMENT_RANDOM_CASES_H_
#define STRATA_SCHEDULER_PLACEMENT_RANDOM_CASES_H_

#include <cstdint>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// A series of numbers by seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  int Below(int bound);  // [0, bound)
  int Between(int least, int most) { return least + Below(most - least + 1); }
  bool Chance(int percent) { return Below(100) < percent; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

struct RandomCase {
  topology::Cluster cluster;
  Shape shape;
};

// At most 5 nodes of at most 4 devices, of one to three named levels, and a job of at most 8 ranks.
RandomCase SmallCase(uint64_t seed);

// The same with one or two constraints, now and then preferred ones, whose runs go with the ranks.
RandomCase SmallConstrainedCase(uint64_t seed);
RandomCase LargeConstrainedCase(uint64_t seed);

// Up to a few hundred devices: uneven zones, mixed kinds, degraded NVL72-like domains, unsorted
// unpadded names, busy and unhealthy nodes, exactly full clusters.
RandomCase LargeCase(uint64_t seed);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_RANDOM_CASES_H_
