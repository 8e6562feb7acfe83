// Whose requests a disk gets next, and how fast it is written to: shared by all queues of a store.
#ifndef STRATA_MEMORY_SSD_IO_SCHEDULER_H_
#define STRATA_MEMORY_SSD_IO_SCHEDULER_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "common/clock.h"

namespace strata::memory {

// What a transfer is for. Those listed first go first; of one class, in any order.
enum class SsdClass : uint8_t {
  kNextLayerRead,  // a pass stands still without it
  kStateRead,      // of what an update works on
  kStateWrite,     // what it leaves
  kCheckpoint,     // to and from checkpoints, beside steps and between them
};
inline constexpr int kSsdClassCount = 4;

struct IoSchedulerOptions {
  // That reads, and as many that writes, may have in flight together; > 0. A single request is
  // never too large.
  int64_t most_bytes = 0;
  // Bytes per second that writes are spread to; 0: as fast as they come. At least
  // kSlowestWriteRate.
  double write_rate = 0;
  const common::Clock* clock = nullptr;
};

// Of requests as they were let go.
struct IoCounters {
  std::array<int64_t, kSsdClassCount> bytes{};  // by class, since the scheduler was made
  int in_flight = 0, most_in_flight = 0;        // requests, of both directions
  // In the busiest 100 ms, of those that begin at multiples of 10 and end in the period.
  int64_t busiest_read_bytes = 0, busiest_written_bytes = 0;
  // That writes were held back by nothing but their pace, each for itself, since the scheduler was
  // made.
  double paced_seconds = 0;
};

// Tokens are bytes in flight. Reads and writes have their own, so that neither waits for the other:
// disks do both at once. While a higher class of a direction wants tokens, a lower one gets none.
//
// Writes are paced by a schedule (the virtual one of leaky buckets: Turner, "New Directions in
// Communications", 1986): each moves the earliest moment of the next by its bytes / rate, and a
// late writer may catch up with kBurstSeconds of the rate. With requests of no more than as much,
// no 100 ms see more than 1.5 × the rate's bytes: the rate's own, a burst, and a request at the
// end.
class IoScheduler {
 public:
  static constexpr double kBurstSeconds = 0.025;
  static constexpr double kSlowestWriteRate = 4096 / kBurstSeconds;  // a block is a request

  // A transfer's standing. Its thread's alone.
  struct Claim {
    bool write = false;
    SsdClass request_class = SsdClass::kCheckpoint;
    bool wants = false;  // it was refused, and lower classes step back
    // When it was refused for its pace alone, and until when that held it; equal: it was not.
    double paced_from = 0, paced_until = 0;
  };

  explicit IoScheduler(const IoSchedulerOptions& options)
      : options_(options), write_rate_(options.write_rate) {}

  // From any thread, for requests from now on; as IoSchedulerOptions::write_rate, but that what is
  // too slow becomes the slowest.
  void SetWriteRate(double rate);
  double write_rate() const { return write_rate_.load(std::memory_order_relaxed); }

  // The most that a write may have at once, in whole blocks; `bytes` where nothing is paced.
  int64_t MostWriteBytes(int64_t bytes) const;

  // Whether the claim got tokens for one request. Who was refused asks again when one of its own
  // requests is complete, or calls Take; or gives up with Withdraw.
  bool TryTake(Claim& claim, int64_t bytes);
  // Blocks until it has them. Only who holds none: others could wait for theirs.
  void Take(Claim& claim, int64_t bytes);
  void Return(const Claim& claim, int64_t bytes);
  void Withdraw(Claim& claim);

  IoCounters counters() const;
  // What was busiest is forgotten.
  void BeginPeriod();

 private:
  // Bytes of the last 100 ms, in tenths.
  class Busiest {
   public:
    void Add(int64_t tenth, int64_t bytes);
    int64_t bytes() const { return most_; }
    void BeginPeriod() { most_ = 0; }

   private:
    std::array<int64_t, 10> tenths_{};
    int64_t last_ = 0, sum_ = 0, most_ = 0;
  };

  struct Direction {
    int64_t in_flight_bytes = 0;
    std::array<int, kSsdClassCount> wanting{};  // claims, by class
    Busiest busiest;
  };

  // Seconds from `now` until the claim may be granted if nothing else changes; 0: now; negative:
  // something else has to.
  double SecondsUntil(const Claim& claim, int64_t bytes, double now) const;
  // As TryTake; what SecondsUntil said.
  double Ask(Claim& claim, int64_t bytes);

  const IoSchedulerOptions options_;
  std::atomic<double> write_rate_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Direction, 2> directions_;  // by Claim::write
  double next_write_ = 0;                // of the schedule
  IoCounters counters_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_IO_SCHEDULER_H_
