// A device that completes streams itself, in queues of its own (a GPU), beside which lanes of the
// host complete others. Events order streams of both kinds.
//
// What cannot run on the device (loading a batch, updates in host memory, disks) stays on lanes;
// the device's queues then wait for lanes, and lanes for queues, in the order of the list, without
// the issuing thread standing between them.
#ifndef STRATA_DEVICE_QUEUE_DEVICE_H_
#define STRATA_DEVICE_QUEUE_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/cpu_device.h"
#include "device/device.h"

namespace strata::device {

// What a queue was handed once, as one thing that it can be handed again.
class QueueGraph {
 public:
  virtual ~QueueGraph() = default;
};

// A moment, by the device's clock: when a stream came to the place of the last Mark.
class TimeMark {
 public:
  virtual ~TimeMark() = default;
};

// A stream that the device completes.
class QueueStream : public Stream {
 public:
  // Between these the stream keeps what it is handed instead of doing it: kernels, copies between
  // memories of a device, fills. Addresses and arguments are kept as they are. Only the calling
  // thread uses the device meanwhile, but for its other streams. Errors, also of the first: what
  // was kept is dropped, and the stream is as before once EndCapture was called.
  virtual absl::Status BeginCapture() = 0;
  virtual absl::StatusOr<std::unique_ptr<QueueGraph>> EndCapture() = 0;
  // Of this stream; it outlives what it was handed.
  virtual absl::Status LaunchGraph(const QueueGraph& graph) = 0;

  // Notes how many actions were handed over so far; `counted` follows when they have ended. Modulo
  // 2³².
  virtual absl::Status Count(uint32_t actions) = 0;
  // From any thread, without a call to the device.
  virtual uint32_t counted() const = 0;

  // Notes when all that was handed over before has ended. Not while the stream captures. Of the
  // same device.
  virtual absl::Status Mark(TimeMark& mark) = 0;
};

class QueueDevice : public Device {
 public:
  // Whose lanes serve the streams that are adopted.
  virtual CpuDevice& lanes() = 0;
  // From any thread: copies between any two memories, apart from all streams, and returns when that
  // is done. No stream works on these bytes meanwhile.
  virtual absl::Status CopyNow(void* to, const void* from, int64_t bytes) = 0;
  // Of its memory, what any process has, contexts and libraries included.
  virtual absl::StatusOr<int64_t> UsedBytes() = 0;
  // Lives as long as the device.
  virtual absl::StatusOr<QueueStream*> CreateQueue() = 0;
  virtual absl::StatusOr<std::unique_ptr<TimeMark>> CreateTimeMark() = 0;
  // Of marks of any of its streams, which have been come to (an event that was recorded after each
  // was waited for).
  virtual absl::StatusOr<double> SecondsBetween(const TimeMark& begin, const TimeMark& end) = 0;
  // The stream of a lane among those of the device: the same, with events that the device's streams
  // can wait for. `stream` is of lanes(), and is waited for and recorded on through what is
  // returned only. Lives as long as the device.
  virtual absl::StatusOr<Stream*> Adopt(CpuStream* stream) = 0;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_QUEUE_DEVICE_H_
