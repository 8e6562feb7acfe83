// What the operating system says of this process's memory, beside what the plan said.
#ifndef STRATA_WORKER_TRAINER_MEMORY_RECORD_H_
#define STRATA_WORKER_TRAINER_MEMORY_RECORD_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "device/queue_device.h"
#include "program/ir/types.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Used by one thread.
class MemoryRecord {
 public:
  using Predicted = google::protobuf::RepeatedPtrField<v1::TierBytes>;

  // `predicted`: what the plan says of this rank's arenas.
  explicit MemoryRecord(const Predicted& predicted) : predicted_(predicted) {}

  // Whose memory the device tier is, from here on; not owned. Without one it is the host's.
  void set_device(device::QueueDevice* device) { device_ = device; }
  // To be called with libraries, data and peers open, the engine's programs bound and no arena
  // made: what is resident is the fixed overhead, and the high-water mark counts from here. Of a
  // device the overhead is what any process has of it by then.
  void MarkOverhead();
  // FailedPrecondition when an arena is not as large as the plan said.
  absl::Status CheckArenas(const Engine& engine) const;
  // What the system refused of fixed arenas, once for all of them; empty: nothing.
  std::string Lacks(const Engine& engine) const;
  // Adds one entry for each tier of the plan. Without /proc the measured bytes are 0. What SSD
  // moved, and how fast, is since the call before. A device is asked now and then.
  void Read(const Engine& engine, google::protobuf::RepeatedPtrField<v1::TierMemory>* memory);
  // Adds one entry for each stream that moves bytes between tiers, of the last step.
  void ReadTransfers(const StepMetrics& metrics,
                     google::protobuf::RepeatedPtrField<v1::Transfer>* transfers);

 private:
  const Predicted predicted_;
  int64_t DeviceBytes() const;  // 0: not known

  device::QueueDevice* device_ = nullptr;
  int64_t overhead_bytes_ = 0;
  int64_t device_overhead_bytes_ = 0, device_bytes_ = 0;
  int64_t reads_ = 0;
  memory::SsdCounters before_;
  double write_rate_ = 0;                               // that writes since then had
  std::array<int64_t, program::kStreamCount> moved_{};  // bytes, in all steps
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_MEMORY_RECORD_H_
