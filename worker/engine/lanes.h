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

class CommunicationLane;

// The device streams of one engine. Used by the issuing thread.
class Lanes {
 public:
  // Pointers are borrowed; `communicator` may be null, and belongs to its lane from Open on, Cancel
  // apart.
  Lanes(device::CpuDevice* device, collectives::Communicator* communicator);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Once: makes `used` streams and starts their lanes. Errors: the device's.
  absl::Status Open(const std::array<bool, program::kStreamCount>& used);

  device::Stream& stream(int stream) { return *streams_[stream]; }
  // Streams of the communication lane, on which operations are polled.
  device::CpuStream& polled(int stream) { return *polled_[stream]; }
  // A stream of that lane beside the program's; null without a communicator.
  device::CpuStream* requests() { return requests_; }

 private:
  device::CpuDevice* const device_;
  collectives::Communicator* const communicator_;
  std::array<device::Stream*, program::kStreamCount> streams_{};
  std::array<device::CpuStream*, program::kStreamCount> polled_{};
  device::CpuStream* requests_ = nullptr;
  std::unique_ptr<device::Lane> communication_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_LANES_H_
