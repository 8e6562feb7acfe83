// The CPU's streams: bounded queues of commands, which a lane completes.
//
// An event is a number: how many commands of its stream must have ended. So to record one costs
// nothing, and one number per stream says all that other streams wait for.
#ifndef STRATA_DEVICE_CPU_STREAM_H_
#define STRATA_DEVICE_CPU_STREAM_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <variant>

#include "device/device.h"
#include "device/lane.h"

namespace strata::device {

class CpuStream;

// A function that may take long without the thread: false means it has begun and is called again.
// Its stream stands; the lane goes on with its other streams meanwhile.
struct PolledFunction {
  bool (*call)(void* object, int64_t argument) = nullptr;
  void* object = nullptr;
  int64_t argument = 0;
};

// The other commands: wait until `stream` has ended `position` commands; copy bytes.
struct WaitFor {
  const CpuStream* stream = nullptr;
  int64_t position = 0;
};
struct Bytes {
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

// `issuer`: the lane of the issuing thread.
class CpuEvent final : public Event {
 public:
  explicit CpuEvent(Lane* issuer) : issuer_(issuer) {}
  absl::StatusOr<bool> Reached() const override;
  absl::Status Synchronize() override;

 private:
  friend class CpuStream;
  Lane* issuer_;
  const CpuStream* stream_ = nullptr;
  int64_t position_ = 0;
};

class CpuStream final : public Stream {
 public:
  // Commands that wait at most. List order bounds what a full queue can hold up: everything in it
  // came earlier in the list, so it drains without what is not yet issued.
  static constexpr int64_t kCapacity = 1024;
  // So many commands are announced together, or those there are when the issuing thread asks after
  // an event: a lane is not woken for each.
  static constexpr int kBatch = 64;

  // Completed by `lane`, to which the maker adds it. Pointers are borrowed.
  CpuStream(LaneGroup* group, Lane* lane, Lane* issuer)
      : group_(group), lane_(lane), issuer_(issuer) {}

  absl::Status Wait(const Event& event) override;
  absl::Status Record(Event& event) override;
  absl::Status Launch(HostFunction function) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::Status LaunchPolled(PolledFunction function);
  // Before it is handed commands, and not of the issuing thread: copies move no more bytes per
  // second, their lane sleeping for what is left; 0: no limit.
  void LimitCopies(double bytes_per_second) { copy_rate_ = bytes_per_second; }

  // Commands that have ended, and that were issued (for the issuing thread).
  int64_t ended() const { return ended_.load(); }
  int64_t issued() const { return issued_.load(std::memory_order_relaxed); }

  // Before it is handed commands: `at` follows what has ended, modulo 2³², for those who read
  // memory only.
  void MirrorEnded(uint32_t* at) { mirror_ = at; }

  // --- Of a stream without a lane. One command more is awaited; on the issuing thread.
  void ExpectOne() { issued_.store(issued() + 1); }
  // And has ended; one thread at a time.
  void EndOne();

  // Tells the lane of what it was handed.
  void Announce();

  // --- For the lane.
  // Runs the head if it can; true when it ended.
  bool RunHead();
  // Whether RunHead may do something at once; polled heads that have begun apart.
  bool CanRunHead() const;
  // Says what the head waits for, before the lane sleeps. Under the group's mutex.
  void Publish();

  // --- For whoever wakes the lane, of what was published. Under the group's mutex.
  // Publishes that the stream is empty, or what its head waits for; false: the head can run.
  bool PublishWait();
  bool IsHeldBy(const CpuStream& other) const {
    return held_by_.load() == &other && other.ended() >= held_until_.load();
  }
  bool was_empty() const { return empty_.load(); }
  Lane* lane() const { return lane_; }

 private:
  using Command = std::variant<WaitFor, HostFunction, PolledFunction, Bytes>;

  absl::Status Push(const Command& command);
  const Command& head() const { return queue_[ended_.load() % kCapacity]; }
  void Run(const Bytes& copy) const;
  void SetEnded(int64_t ended);
  static bool IsOver(const WaitFor& wait) { return wait.stream->ended() >= wait.position; }

  LaneGroup* const group_;
  Lane* const lane_;
  Lane* const issuer_;
  std::array<Command, kCapacity> queue_;
  alignas(64) std::atomic<int64_t> issued_{0};
  alignas(64) std::atomic<int64_t> ended_{0};
  int unannounced_ = 0;  // commands; the issuing thread's
  bool begun_ = false;   // the head is polled, and was called; the lane's
  double copy_rate_ = 0;
  uint32_t* mirror_ = nullptr;

  std::atomic<const CpuStream*> held_by_{nullptr};
  std::atomic<int64_t> held_until_{0};
  std::atomic<bool> empty_{false};
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CPU_STREAM_H_
