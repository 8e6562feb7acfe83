#include "kernels/bench_harness.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/processor_time.h"
#include "kernels/isa.h"

namespace strata::kernels {
namespace {

// Processor seconds of the process per thread.
class CpuClock final : public common::Clock {
 public:
  explicit CpuClock(int threads) : threads_(threads) {}
  double Now() const override { return common::ProcessProcessorSeconds() / threads_; }

 private:
  const int threads_;
};

std::unique_ptr<common::Clock> MakeClock(bool cpu, int threads) {
  if (cpu) return std::make_unique<CpuClock>(threads);
  return std::make_unique<common::MonotonicClock>();
}

}  // namespace

std::optional<BenchOptions> ParseBenchOptions(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i], value;
    if (const size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return std::nullopt;
    }
    if (flag == "--benchmark_filter") {
      try {
        options.filter = std::regex(value);
      } catch (const std::regex_error&) {
        return std::nullopt;
      }
    } else if (flag == "--threads" && std::atoi(value.c_str()) > 0) {
      options.threads = std::atoi(value.c_str());
    } else if (flag == "--seconds" && std::atof(value.c_str()) > 0) {
      options.seconds = std::atof(value.c_str());
    } else if (flag == "--clock" && (value == "wall" || value == "cpu")) {
      options.cpu_clock = value == "cpu";
    } else if (flag == "--json") {
      options.json = value;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

BenchHarness::BenchHarness(const BenchOptions& options)
    : options_(options),
      pool_(options.threads),
      context_{&pool_},
      clock_(MakeClock(options.cpu_clock, options.threads)) {}

void BenchHarness::WriteJson() const {
  nlohmann::json kernels = nlohmann::json::array();
  for (const Result& r : results_) {
    kernels.push_back({{"name", r.name},
                       {"seconds", r.seconds},
                       {"flops_per_second", r.flops / r.seconds},
                       {"bytes_per_second", r.bytes / r.seconds}});
  }
  const nlohmann::json all = {{"isa", IsaName()},
                              {"threads", pool_.threads()},
                              {"limits",
                               {{"core_flops_per_second", limits_.core_flops_per_second},
                                {"flops_per_second", limits_.flops_per_second},
                                {"read_bytes_per_second", limits_.read_bytes_per_second},
                                {"write_bytes_per_second", limits_.write_bytes_per_second},
                                {"copy_bytes_per_second", limits_.copy_bytes_per_second}}},
                              {"kernels", kernels}};
  std::ofstream(options_.json) << all.dump(2) << "\n";
}

void BenchHarness::MeasureLimits() {
  limits_ = MeasureMachineLimits(&pool_, *clock_);
  std::printf(
      "%s, %d threads. Limits: %.1f GFLOP/s per core, %.1f all; memory read %.1f, write "
      "%.1f, copy %.1f GB/s\n\n",
      IsaName().c_str(), pool_.threads(), limits_.core_flops_per_second * 1e-9,
      limits_.flops_per_second * 1e-9, limits_.read_bytes_per_second * 1e-9,
      limits_.write_bytes_per_second * 1e-9, limits_.copy_bytes_per_second * 1e-9);
  std::printf("%-44s %10s %10s %6s %8s %6s\n", "kernel", "ms", "GFLOP/s", "peak", "GB/s", "copy");
}

void BenchHarness::Measure(const std::string& name, double flops, double bytes,
                           const std::function<void()>& body) {
  const common::MonotonicClock wall{};
  body();
  double fastest = 1e30;
  const double begin = wall.Now();
  for (int repetition = 0; repetition < 3 || wall.Now() - begin < options_.seconds; ++repetition) {
    const double start = clock_->Now();
    body();
    fastest = std::min(fastest, clock_->Now() - start);
  }
  results_.push_back({name, fastest, flops, bytes});
  std::printf("%-44s %10.3f %10.1f %5.0f%% %8.1f %5.0f%%\n", name.c_str(), fastest * 1e3,
              flops / fastest * 1e-9, 100 * flops / fastest / limits_.flops_per_second,
              bytes / fastest * 1e-9, 100 * bytes / fastest / limits_.copy_bytes_per_second);
  std::fflush(stdout);
}

}  // namespace strata::kernels
