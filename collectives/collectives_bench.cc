// Latency and bus bandwidth of every operation between processes of this machine, over shared
// memory and TCP.
//
// Bus bandwidth is that of NCCL's tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): bytes
// that must cross a rank's link, over time: (n − 1) / n of the whole for all-gather and
// reduce-scatter, twice that for all-reduce.
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "collectives/process_world.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::collectives {
namespace {

constexpr int64_t kSizes[] = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kSend,          OpKind::kBroadcast,
                             OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllReduce};
constexpr int kCells = std::size(kSizes) * std::size(kKinds);
constexpr unsigned kMostSeconds = 300;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Buffers {
  std::vector<float> in, out, scratch;
  void* AlignedScratch() {
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
};

// Runs the operation `times` times. A send is a ping-pong of members 0 and 1; roots take turns.
absl::Status Repeat(Communicator& communicator, Operation op, int times) {
  const int rank = communicator.rank();
  if (op.kind != OpKind::kSend) {
    for (int i = 0; i < times; ++i) {
      if (op.kind == OpKind::kBroadcast) op.peer = i % communicator.size();
      RETURN_IF_ERROR(RunOperation(communicator, op));
    }
    return absl::OkStatus();
  }
  if (rank > 1) return absl::OkStatus();
  op.peer = 1 - rank;
  for (int i = 0; i < times; ++i) {
    op.kind = i % 2 == rank ? OpKind::kSend : OpKind::kReceive;
    RETURN_IF_ERROR(RunOperation(communicator, op));
  }
  return absl::OkStatus();
}

// Median over a few batches, each between two barriers; `bytes` are those of the whole vector.
absl::StatusOr<double> SecondsOf(Communicator& communicator, GroupId group, OpKind kind,
                                 int64_t bytes, Buffers& buffers) {
  const bool divides = kind == OpKind::kAllGather || kind == OpKind::kReduceScatter;
  const int64_t count = std::max<int64_t>(1, bytes / 4 / (divides ? communicator.size() : 1));
  const Operation op = {.kind = kind,
                        .group = group,
                        .type = DataType::kF32,
                        .count = kind == OpKind::kBarrier ? 0 : count,
                        .in = buffers.in.data(),
                        .out = buffers.out.data(),
                        .scratch = buffers.AlignedScratch(),
                        .scratch_bytes = static_cast<int64_t>(buffers.scratch.size() * 4 - 64)};
  const Operation barrier = {.kind = OpKind::kBarrier, .group = group};
  const int times = bytes >= 4 << 20 ? 4 : bytes >= 256 << 10 ? 16 : 200;
  RETURN_IF_ERROR(Repeat(communicator, op, 4));
  std::vector<double> seconds;
  for (int batch = 0; batch < 5; ++batch) {
    RETURN_IF_ERROR(RunOperation(communicator, barrier));
    const double begin = Now();
    RETURN_IF_ERROR(Repeat(communicator, op, times));
    RETURN_IF_ERROR(RunOperation(communicator, barrier));
    seconds.push_back((Now() - begin) / times);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

absl::Status Measure(Communicator& communicator, double* cells) {
  std::vector<int> ranks(communicator.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  ASSIGN_OR_RETURN(const GroupId group, communicator.CreateGroup(ranks));
  Buffers buffers;
  const int64_t most = *std::max_element(std::begin(kSizes), std::end(kSizes)) / 4;
  buffers.in.assign(most, 1);
  buffers.out.assign(most, 1);
  buffers.scratch.assign(most + 1024, 1);
  for (const OpKind kind : kKinds) {
    for (const int64_t bytes : kSizes) {
      ASSIGN_OR_RETURN(const double seconds, SecondsOf(communicator, group, kind, bytes, buffers));
      if (communicator.rank() == 0) *cells = seconds;
      ++cells;
      if (kind == OpKind::kBarrier) {
        cells += std::size(kSizes) - 1;
        break;
      }
    }
  }
  return absl::OkStatus();
}

double BusFactor(OpKind kind, int n) {
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      return (n - 1.0) / n;
    case OpKind::kAllReduce:
      return 2 * (n - 1.0) / n;
    case OpKind::kBarrier:
      return 0;
    default:
      return 1;
  }
}

void Report(const std::string& transports, int n, const double* cells, nlohmann::json* rows) {
  std::printf("\n%d processes over %s\n%-16s", n, transports.c_str(), "");
  for (const int64_t bytes : kSizes) std::printf(" %20s", common::FormatBytes(bytes).c_str());
  std::printf("\n");
  for (const OpKind kind : kKinds) {
    std::printf("%-16s", OpName(kind));
    for (const int64_t bytes : kSizes) {
      const double seconds = *cells++;
      if (seconds == 0) continue;
      const double bandwidth = BusFactor(kind, n) * bytes / seconds / 1e9;
      std::printf(" %8.1f us %5.2f GB/s", seconds * 1e6, bandwidth);
      rows->push_back({{"transports", transports},
                       {"processes", n},
                       {"op", OpName(kind)},
                       {"bytes", kind == OpKind::kBarrier ? 0 : bytes},
                       {"seconds", seconds},
                       {"bus_gigabytes_per_second", bandwidth}});
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CLI::App app("Latency and bus bandwidth of collectives between processes of this machine");
  std::string json;
  app.add_option("--json", json, "Also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  void* const memory = mmap(nullptr, kCells * sizeof(double), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* cells = static_cast<double*>(memory);
  nlohmann::json rows = nlohmann::json::array();
  for (const char* transports : {"sm,tcp,self", "tcp,self"}) {
    for (const int n : {2, 4}) {
      std::fill_n(cells, kCells, 0.0);
      const auto results = RunInProcesses(
          {.transports = transports}, n, [&](Communicator& c) { return Measure(c, cells); },
          kMostSeconds);
      for (const absl::Status& status : results) {
        if (status.ok()) continue;
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        return 1;
      }
      Report(transports, n, cells, &rows);
    }
  }
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << rows.dump(2) << "\n";
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace strata::collectives

int main(int argc, char** argv) { return strata::collectives::Main(argc, argv); }
