// How kernels are measured: beside the machine's limits of the same run.
//
// Times are the fastest of the repetitions: other load on the machine can only add. --clock cpu
// takes the process's processor time divided by the threads, for machines that others use too.
// Bytes count each operand once, so a kernel whose operands fit the caches can exceed the memory's
// rate.
#ifndef STRATA_KERNELS_BENCH_HARNESS_H_
#define STRATA_KERNELS_BENCH_HARNESS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "device/thread_pool.h"
#include "kernels/context.h"
#include "kernels/machine_limits.h"

namespace strata::kernels {

struct BenchOptions {
  std::regex filter{""};
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  double seconds = 0.5;
  bool cpu_clock = false;
  std::string json;
};

// Both --flag=value and --flag value; nothing: not as kernels_bench is used.
std::optional<BenchOptions> ParseBenchOptions(int argc, char** argv);

// Aligned floats that live as long as the benchmark of one kernel.
class Buffers {
 public:
  float* Get(int64_t count, float value = 0.01f) {
    const int64_t bytes = (count * 4 + 4095) / 4096 * 4096;
    memory_.emplace_back(static_cast<float*>(std::aligned_alloc(4096, bytes)), &std::free);
    float* floats = memory_.back().get();
    STRATA_CHECK(floats != nullptr);
    // Neither constant nor denormal.
    for (int64_t i = 0; i < count; ++i) floats[i] = value * (1 + static_cast<float>(i % 97) / 97);
    return floats;
  }
  void* Workspace(int64_t bytes) { return Get(bytes / 4 + 16); }

 private:
  std::vector<std::unique_ptr<float, void (*)(void*)>> memory_;
};

class BenchHarness {
 public:
  explicit BenchHarness(const BenchOptions& options);

  // Measured results so far, to the options' file.
  void WriteJson() const;

 protected:
  // And prints them, and the heading of what follows.
  void MeasureLimits();
  bool Wanted(const std::string& name) const { return std::regex_search(name, options_.filter); }
  // Runs `body` for the options' seconds, three times at least, and prints a line.
  void Measure(const std::string& name, double flops, double bytes,
               const std::function<void()>& body);

  const BenchOptions options_;
  device::ThreadPool pool_;
  const Context context_;

 private:
  struct Result {
    std::string name;
    double seconds, flops, bytes;
  };

  const std::unique_ptr<common::Clock> clock_;
  MachineLimits limits_;
  std::vector<Result> results_;
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_BENCH_HARNESS_H_
