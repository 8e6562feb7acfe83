// Lane: a thread that completes streams of the CPU.
#ifndef STRATA_DEVICE_LANE_H_
#define STRATA_DEVICE_LANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace strata::device {

class CpuStream;
class Lane;

// The lanes of one device: who sleeps, and how they are woken. Waking costs a look at one number
// while nobody sleeps.
class LaneGroup {
 public:
  // `stream` has ended one command more.
  void NoteEnded(const CpuStream& stream) {
    if (sleepers_.load() > 0) WakeThoseAfter(stream);
  }
  // `stream` was handed commands. On the issuing thread.
  void NoteIssued(CpuStream& stream) {
    if (sleepers_.load() > 0) WakeOwner(stream);
  }

 private:
  friend class Lane;
  void WakeThoseAfter(const CpuStream& stream);
  void WakeOwner(CpuStream& stream);

  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // guards lanes_, and what sleeping lanes publish
  std::vector<Lane*> lanes_;
};

// Serves its streams round and round: runs the head of each as soon as it can, and sleeps when no
// head can go on. A derived lane has another source of progress beside the streams.
class Lane {
 public:
  explicit Lane(LaneGroup* group);
  virtual ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Before the lane serves. The stream is borrowed and outlives the serving.
  void Add(CpuStream* stream);
  // Announces what was issued, and serves on the calling thread until `stream` (of any lane of the
  // group) has ended `position` commands.
  void ServeUntil(const CpuStream& stream, int64_t position);
  // On the issuing thread's lane: `stream` was handed commands of which its lane was not told.
  // At most all streams at once, for which there is room.
  void Owe(CpuStream* stream) { owed_.push_back(stream); }
  void ReserveOwed(size_t streams) { owed_.reserve(streams); }
  void Announce();
  // Serves on a thread of its own, until Stop. What is queued then is not run.
  void Start();
  // A derived lane stops before it is destroyed.
  void Stop();

 protected:
  // Moves along what heads have begun; true: look at the heads again.
  virtual bool Progress() { return false; }
  // Sleeps until Wake was called since the last Block (or returns for reasons of its own).
  virtual void Block();
  // From any thread.
  virtual void Wake();

 private:
  friend class LaneGroup;
  bool Ended() const;
  // One pass over the streams; true when one moved.
  bool Advance();
  void Serve();
  void Sleep();
  void GoToSleep();

  LaneGroup* const group_;
  std::vector<CpuStream*> streams_;
  std::vector<CpuStream*> owed_;
  // What ServeUntil waits for; null on a thread of its own.
  std::atomic<const CpuStream*> until_stream_{nullptr};
  std::atomic<int64_t> until_position_{0};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards woken_
  std::condition_variable wakes_;
  bool woken_ = false;

  std::thread thread_;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_LANE_H_
