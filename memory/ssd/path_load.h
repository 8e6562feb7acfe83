// How busy one path of a store is, and with how many requests at once.
#ifndef STRATA_MEMORY_SSD_PATH_LOAD_H_
#define STRATA_MEMORY_SSD_PATH_LOAD_H_

#include <array>
#include <cstdint>
#include <mutex>

namespace strata::memory {

// Since the store was made, but for `most_in_flight`.
struct PathCounters {
  int64_t bytes_read = 0, bytes_written = 0;   // of requests that came back
  double read_seconds = 0, write_seconds = 0;  // with such a request in flight
  double busy_seconds = 0;                     // with any
  // Of all requests, each from its submission to its end: divided by busy_seconds it is the mean
  // depth of the path's queue.
  double request_seconds = 0;
  int most_in_flight = 0;  // since the period began
};

// Any thread's. Seconds are one clock's; `now` does not go back.
class PathLoad {
 public:
  void Begin(bool write, double now);
  void End(bool write, int64_t bytes, double now);

  // Requests in flight count up to now.
  PathCounters counters(double now) const;
  void BeginPeriod();

 private:
  void Pass(double now);

  mutable std::mutex mutex_;
  std::array<int, 2> in_flight_{};  // by `write`
  double last_ = 0;                 // when one of them changed
  PathCounters counters_;           // until then
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_PATH_LOAD_H_
