#include "memory/ssd/path_load.h"

#include <algorithm>

namespace strata::memory {
namespace {

// What `counters` become when `seconds` pass with so much in flight.
void Add(const std::array<int, 2>& in_flight, double seconds, PathCounters& counters) {
  const int both = in_flight[false] + in_flight[true];
  if (in_flight[false] > 0) counters.read_seconds += seconds;
  if (in_flight[true] > 0) counters.write_seconds += seconds;
  if (both > 0) counters.busy_seconds += seconds;
  counters.request_seconds += both * seconds;
}

}  // namespace

// Threads read the clock before they have the mutex, so that one may come with an earlier time.
void PathLoad::Pass(double now) {
  Add(in_flight_, std::max(now - last_, 0.0), counters_);
  last_ = std::max(now, last_);
}

void PathLoad::Begin(bool write, double now) {
  const std::lock_guard lock(mutex_);
  Pass(now);
  ++in_flight_[write];
  counters_.most_in_flight = std::max(counters_.most_in_flight, in_flight_[0] + in_flight_[1]);
}

void PathLoad::End(bool write, int64_t bytes, double now) {
  const std::lock_guard lock(mutex_);
  Pass(now);
  --in_flight_[write];
  (write ? counters_.bytes_written : counters_.bytes_read) += bytes;
}

PathCounters PathLoad::counters(double now) const {
  const std::lock_guard lock(mutex_);
  PathCounters counters = counters_;
  Add(in_flight_, std::max(now - last_, 0.0), counters);
  return counters;
}

void PathLoad::BeginPeriod() {
  const std::lock_guard lock(mutex_);
  counters_.most_in_flight = in_flight_[0] + in_flight_[1];
}

}  // namespace strata::memory
