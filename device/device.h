// Device, Stream, Event: what a rank computes on, seen by the one thread that issues its work.
//
// The thread hands work to streams and goes on; a stream completes what it was handed in order, the
// streams of a device independently of each other. An event marks a place in a stream's order, so
// that another stream, or the thread, can wait for it. The rules are those of CUDA's streams
// (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"), so that a CUDA device maps
// each call to one of the runtime's; on the CPU, streams are lanes (cpu_device.h).
//
// Errors of a device (none on the CPU) are sticky: after one, every call returns it.
#ifndef STRATA_DEVICE_DEVICE_H_
#define STRATA_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::device {

// Where bytes lie: what kernels compute on, or what the host and the device's copies reach.
enum class Memory : uint8_t { kDevice, kHost };

// What a stream calls in its order. Owns nothing; `object` outlives the call.
struct HostFunction {
  void (*call)(void* object, int64_t argument) = nullptr;
  void* object = nullptr;
  int64_t argument = 0;
};

// A place in a stream's order: that of the last Record. One that was never recorded counts as
// reached.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::StatusOr<bool> Reached() const = 0;
  // Blocks the issuing thread until then.
  virtual absl::Status Synchronize() = 0;
};

// All calls by the issuing thread. Each returns at once, or as soon as the stream's queue, which is
// bounded, has room. Nothing is allocated. Events are of the same device.
class Stream {
 public:
  virtual ~Stream() = default;
  // Work handed over later begins after the place that `event` marks now.
  virtual absl::Status Wait(const Event& event) = 0;
  // `event` marks the end of all that was handed over before.
  virtual absl::Status Record(Event& event) = 0;
  virtual absl::Status Launch(HostFunction function) = 0;
  // Between any two kinds of memory; the ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
};

// Who completes a stream on a device whose streams need a thread (the CPU). A device with queues of
// its own makes no difference.
enum class Service : uint8_t {
  kIssuer,  // the issuing thread, whenever it waits for anything of the device: no hand-over costs
  kThread,  // a thread of the stream's own, which sleeps when there is nothing to do
};

class Device {
 public:
  virtual ~Device() = default;

  // Lives as long as the device.
  virtual absl::StatusOr<Stream*> CreateStream(Service service) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;

  // Memory is had in two steps, so that addresses can be bound before the bytes are there. `bytes`
  // are whole pages. ResourceExhausted: no room.
  virtual absl::StatusOr<std::byte*> Reserve(Memory memory, int64_t bytes) = 0;
  // Zeroed, and present from here on.
  virtual absl::Status Commit(Memory memory, std::byte* data, int64_t bytes) = 0;
  virtual void Release(Memory memory, std::byte* data, int64_t bytes) = 0;

  // Whether the host may read and write it.
  virtual bool IsHostAccessible(Memory memory) const = 0;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_DEVICE_H_
