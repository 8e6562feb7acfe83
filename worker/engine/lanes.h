// Which lane completes which stream, and the streams themselves.
#ifndef STRATA_WORKER_ENGINE_LANES_H_
#define STRATA_WORKER_ENGINE_LANES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "device/cpu_device.h"
#include "device/queue_device.h"
#include "program/ir/types.h"

namespace strata::worker {

// One thread each; compute is the issuing thread's own.
enum class LaneId : uint8_t {
  kCompute,
  kHost,
  kFetch,
  kEvict,
  kCommunication,
  kSsdRead,
  kSsdWrite,
  kUpdate,
  kUpdateFetch,
  kUpdateEvict,
  kUpdateRead,
  kUpdateWrite,
};
inline constexpr int kLaneCount = 12;

// Null: no lane serves it.
std::optional<LaneId> LaneOf(program::Stream stream);
// Whether a device with queues completes it, where there is one: its kernels, copies to and from it
// and, if it communicates itself, what ranks tell each other.
bool IsOnQueue(program::Stream stream, bool device_communicates);

class CommunicationLane;

// The device streams of one engine. Used by the issuing thread.
class Lanes {
 public:
  // Pointers are borrowed; `communicator` may be null, and belongs to its lane from Open on, Cancel
  // apart. `queues`: completes streams beside the lanes, which are then its own; null: there is no
  // such device.
  Lanes(device::CpuDevice* device, collectives::Communicator* communicator,
        device::QueueDevice* queues);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Once, first: makes the streams of the device with queues. Errors: the device's.
  absl::Status OpenQueues(bool device_communicates);
  // Once: makes `used` streams and starts their lanes. Errors: the devices'.
  absl::Status Open(const std::array<bool, program::kStreamCount>& used);

  device::Stream& stream(int stream) { return *streams_[stream]; }
  // Null: a lane completes the stream.
  device::QueueStream* queue(int stream) { return queue_streams_[stream]; }
  const std::array<device::QueueStream*, program::kStreamCount>& queues() const {
    return queue_streams_;
  }
  // Streams of the communication lane, on which operations are polled.
  device::CpuStream& polled(int stream) { return *polled_[stream]; }
  // A stream of that lane beside the program's; null without a communicator.
  device::CpuStream* requests() { return requests_; }

 private:
  device::CpuDevice* const device_;
  collectives::Communicator* const communicator_;
  device::QueueDevice* const queues_;
  std::array<device::QueueStream*, program::kStreamCount> queue_streams_{};
  std::array<device::Stream*, program::kStreamCount> streams_{};
  std::array<device::CpuStream*, program::kStreamCount> polled_{};
  device::CpuStream* requests_ = nullptr;
  std::unique_ptr<device::Lane> communication_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_LANES_H_
