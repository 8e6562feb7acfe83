#include "memory/ssd/io_scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace strata::memory {
namespace {

constexpr double kTenthSeconds = 0.01;
constexpr int64_t kBlockBytes = 4096;

}  // namespace

void IoScheduler::SetWriteRate(double rate) {
  write_rate_.store(rate == 0 ? 0 : std::max(rate, kSlowestWriteRate), std::memory_order_relaxed);
}

int64_t IoScheduler::MostWriteBytes(int64_t bytes) const {
  const double rate = write_rate();
  if (rate == 0) return bytes;
  const auto most =
      static_cast<int64_t>(std::min(rate * kBurstSeconds, static_cast<double>(bytes)));
  return std::max(most / kBlockBytes * kBlockBytes, kBlockBytes);
}

double IoScheduler::SecondsUntil(const Claim& claim, int64_t bytes, double now) const {
  const Direction& direction = directions_[claim.write];
  const auto own = direction.wanting.begin() + static_cast<int>(claim.request_class);
  const bool higher =
      std::any_of(direction.wanting.begin(), own, [](int wanting) { return wanting > 0; });
  const int64_t in_flight = direction.in_flight_bytes;
  if (higher || (in_flight > 0 && in_flight + bytes > options_.most_bytes)) return -1;
  if (!claim.write || write_rate() == 0) return 0;
  return std::max(next_write_ - now, 0.0);
}

double IoScheduler::Ask(Claim& claim, int64_t bytes) {
  const double now = options_.clock->Now();
  const double seconds = SecondsUntil(claim, bytes, now);
  Direction& direction = directions_[claim.write];
  int& wanting = direction.wanting[static_cast<int>(claim.request_class)];
  const bool refused = seconds != 0;
  wanting += static_cast<int>(refused) - static_cast<int>(claim.wants);
  if (claim.wants && !refused) changed_.notify_all();
  claim.wants = refused;
  // Later than that it was its own queue, or the disk, that it waited for.
  counters_.paced_seconds += std::min(now, claim.paced_until) - claim.paced_from;
  claim.paced_from = now;
  claim.paced_until = now + std::max(seconds, 0.0);
  if (refused) return seconds;
  direction.in_flight_bytes += bytes;
  direction.busiest.Add(static_cast<int64_t>(std::floor(now / kTenthSeconds)), bytes);
  counters_.bytes[static_cast<int>(claim.request_class)] += bytes;
  counters_.most_in_flight = std::max(++counters_.in_flight, counters_.most_in_flight);
  if (const double rate = write_rate(); claim.write && rate > 0) {
    next_write_ = std::max(next_write_, now - kBurstSeconds) + static_cast<double>(bytes) / rate;
  }
  return 0;
}

bool IoScheduler::TryTake(Claim& claim, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return Ask(claim, bytes) == 0;
}

void IoScheduler::Take(Claim& claim, int64_t bytes) {
  std::unique_lock lock(mutex_);
  while (true) {
    const double seconds = Ask(claim, bytes);
    if (seconds == 0) return;
    if (seconds < 0) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(seconds));
    }
  }
}

void IoScheduler::Return(const Claim& claim, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  directions_[claim.write].in_flight_bytes -= bytes;
  --counters_.in_flight;
  changed_.notify_all();
}

void IoScheduler::Withdraw(Claim& claim) {
  const std::lock_guard lock(mutex_);
  if (!claim.wants) return;
  --directions_[claim.write].wanting[static_cast<int>(claim.request_class)];
  claim.wants = false;
  changed_.notify_all();
}

IoCounters IoScheduler::counters() const {
  const std::lock_guard lock(mutex_);
  IoCounters counters = counters_;
  counters.busiest_read_bytes = directions_[false].busiest.bytes();
  counters.busiest_written_bytes = directions_[true].busiest.bytes();
  return counters;
}

void IoScheduler::BeginPeriod() {
  const std::lock_guard lock(mutex_);
  for (Direction& direction : directions_) direction.busiest.BeginPeriod();
}

void IoScheduler::Busiest::Add(int64_t tenth, int64_t bytes) {
  const auto size = static_cast<int64_t>(tenths_.size());
  for (int64_t passed = std::max(last_ + 1, tenth - size + 1); passed <= tenth; ++passed) {
    sum_ -= tenths_[passed % size];
    tenths_[passed % size] = 0;
  }
  last_ = std::max(last_, tenth);
  tenths_[last_ % size] += bytes;
  sum_ += bytes;
  most_ = std::max(most_, sum_);
}

}  // namespace strata::memory
