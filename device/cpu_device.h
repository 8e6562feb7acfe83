// The CPU as a device: memory is pages of the host, streams are lanes.
#ifndef STRATA_DEVICE_CPU_DEVICE_H_
#define STRATA_DEVICE_CPU_DEVICE_H_

#include <memory>
#include <vector>

#include "device/cpu_stream.h"
#include "device/device.h"
#include "device/lane.h"

namespace strata::device {

struct CpuDeviceOptions {
  // Whether device memory counts as the host's, which it is. False lets tests hold programs to what
  // a device with memory of its own asks for.
  bool shares_memory = true;
  // Of the link that joins its memory to the host's, each way, in bytes per second: a copy on a
  // stream that has a thread takes no less. 0: as fast as memory is.
  double link_rate = 0;
};

// A stream of Service::kIssuer is completed by the issuing thread while it waits in Synchronize, or
// for room in any stream's queue: it issues ahead for all streams and then becomes the lane of its
// own. Streams of Service::kThread have a thread each. With the device ends what its streams were
// handed and have not begun.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options = {}) : options_(options), issuer_(&group_) {}

  absl::StatusOr<Stream*> CreateStream(Service service) override;
  // A stream of the caller's own lane, which is not started yet and stops before the device ends.
  CpuStream* CreateStream(Lane* lane);
  // A stream that no lane completes: somebody else does, and counts (CpuStream::EndOne).
  CpuStream* CreateOutsideStream();
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;

  absl::StatusOr<std::byte*> Reserve(Memory memory, int64_t bytes) override;
  absl::Status Commit(Memory memory, std::byte* data, int64_t bytes) override;
  void Release(Memory memory, std::byte* data, int64_t bytes) override;
  bool IsHostAccessible(Memory memory) const override {
    return memory == Memory::kHost || options_.shares_memory;
  }

  LaneGroup* group() { return &group_; }
  Lane* issuer() { return &issuer_; }
  // Tells lanes of what they were handed. On the issuing thread, before it waits for anything else
  // than events of this device.
  void Announce() { issuer_.Announce(); }
  // Ends the device's own lanes; what is queued then is not run.
  void Stop();

 private:
  const CpuDeviceOptions options_;
  LaneGroup group_;
  Lane issuer_;  // of the issuing thread
  std::vector<std::unique_ptr<CpuStream>> streams_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // last: they use the streams
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CPU_DEVICE_H_
