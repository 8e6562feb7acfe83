// What can be known of where a rank is, however it is read.
#ifndef STRATA_WORKER_SHARED_PROGRESS_VIEW_H_
#define STRATA_WORKER_SHARED_PROGRESS_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/shared/progress_layout.h"

namespace strata::worker {

// Each call looks anew. Used by one thread.
class ProgressView {
 public:
  // An instruction in flight.
  struct Activity {
    int stream = 0;
    std::string label;
    double begin = 0;       // clock time
    double slowest = 0;     // seconds of its slowest execution lately; 0: not executed yet
    std::string group;      // that it communicates in; empty: it computes
    bool pair = false;      // with one member of the group
    bool storage = false;   // it reads or writes files, or waits for who does
    uint64_t sequence = 0;  // collectives: counts the group's on this stream from 1
  };

  virtual ~ProgressView() = default;

  virtual int64_t step() const = 0;    // in progress; 0 before the first
  virtual uint64_t ticks() const = 0;  // grows with everything that begins or ends
  virtual Phase phase() const = 0;
  virtual double phase_begin() const = 0;  // clock time
  // A checkpoint is being written while steps up to this one run.
  virtual int64_t checkpoint_step() const = 0;
  // Whether a file operation is in flight; when one began or ended last (clock time; 0: none did).
  virtual bool in_storage_operation() const { return false; }
  virtual double storage_tick() const { return 0; }
  // What is in flight, by stream. What changes during the call may be left out.
  virtual std::vector<Activity> Activities() const = 0;
  // Collectives of the group that this rank has begun on the stream; 0 for what it does not know.
  virtual uint64_t Begun(const std::string& group, int stream) const = 0;
  // "step 17, 'forward block 3'", for messages; empty before the first instruction.
  virtual std::string DescribePosition() const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_VIEW_H_
