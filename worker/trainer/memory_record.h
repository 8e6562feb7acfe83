// What the operating system says of this process's memory, beside what the plan said.
#ifndef STRATA_WORKER_TRAINER_MEMORY_RECORD_H_
#define STRATA_WORKER_TRAINER_MEMORY_RECORD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/engine/engine.h"

namespace strata::worker {

// Used by one thread.
class MemoryRecord {
 public:
  using Predicted = google::protobuf::RepeatedPtrField<v1::TierBytes>;

  // `predicted`: what the plan says of this rank's arenas.
  explicit MemoryRecord(const Predicted& predicted) : predicted_(predicted) {}

  // To be called with libraries, data and peers open, the engine's programs bound and no arena
  // made: what is resident is the fixed overhead, and the high-water mark counts from here.
  void MarkOverhead();
  // FailedPrecondition when an arena is not as large as the plan said.
  absl::Status CheckArenas(const Engine& engine) const;
  // Adds one entry for each tier of the plan. Without /proc the measured bytes are 0. What SSD
  // moved is since the call before.
  void Read(const Engine& engine, google::protobuf::RepeatedPtrField<v1::TierMemory>* memory);

 private:
  const Predicted predicted_;
  int64_t overhead_bytes_ = 0;
  memory::SsdCounters before_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_MEMORY_RECORD_H_
