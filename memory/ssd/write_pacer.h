// How fast the SSD tier is to be written to, so that a step's writes are spread over the step:
// drives serve reads beside a steady stream of writes better than between bursts.
#ifndef STRATA_MEMORY_SSD_WRITE_PACER_H_
#define STRATA_MEMORY_SSD_WRITE_PACER_H_

#include <cstdint>

namespace strata::memory {

// The mean rate of a step is what it writes by the seconds that it takes, those left out that the
// computation waited for the pace: otherwise one that slows steps down would lower itself. Writes
// come late in a step where updates wait for the norm, so that the mean rate itself may be too
// slow. The first two steps that write are not paced: updates go on under the next step, so that
// the first one tells of a part of the writes. From then on the rate falls towards the mean as long
// as the computation does not wait, rises when it does, and is tried again lower after a while.
class WritePacer {
 public:
  static constexpr int kUnpacedSteps = 2;
  static constexpr double kFirst = 4, kMost = 16;  // times the mean rate
  static constexpr double kFall = 0.8, kRise = 1.5;
  static constexpr double kMostStalled = 0.02;  // of a step
  static constexpr int kHoldSteps = 50;         // after a rise

  // A step is over that wrote so many bytes; `stalled`: of its seconds, what the computation waited
  // for writes that their pace held back. Bytes per second for the next one; 0: as fast as they
  // come.
  double EndStep(int64_t written, double seconds, double stalled);

 private:
  double mean_rate_ = 0, factor_ = kFirst;
  int unpaced_ = kUnpacedSteps;  // still to come
  int hold_ = 0;                 // steps until the next fall
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_WRITE_PACER_H_
