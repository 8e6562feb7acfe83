// What threads take of processors.
#ifndef STRATA_COMMON_PROCESSOR_TIME_H_
#define STRATA_COMMON_PROCESSOR_TIME_H_

#include <cstdint>
#include <ctime>

namespace strata::common {

// Of the calling thread, since it began; nanoseconds, the kernel's work for it included.
inline int64_t ThreadProcessorNanos() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// Of all threads of the process, in seconds.
inline double ProcessProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace strata::common

#endif  // STRATA_COMMON_PROCESSOR_TIME_H_
