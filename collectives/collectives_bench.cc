// Messages and operations between processes of this machine: through the memory that ranks share,
// as trainers do, the same where no memory may be read directly (chunks), UCX's shared memory, and
// TCP.
//
// A message's latency is half a round trip, its bandwidth the bytes over that. Ways take turns, and
// the median counts.
//
// Bus bandwidth is that of NCCL's tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): bytes
// that must cross a rank's link, over time: (n − 1) / n of the whole for all-gather and
// reduce-scatter, twice that for all-reduce.
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/process_world.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::collectives {
namespace {

struct Way {
  const char* name;
  ProcessOptions options;
};
const Way kWays[] = {{"shared", {}},
                     {"chunks", {.direct = false}},
                     {"ucx-sm", {.transports = "sm,tcp,self", .shared_memory = false}},
                     {"ucx-tcp", {.shared_memory = false}}};

constexpr int64_t kMessageSizes[] = {8, 64, 512, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
// Beside messages, two whole vectors of which each process keeps or has a half.
constexpr OpKind kHalved[] = {OpKind::kReduceScatter, OpKind::kAllGather};
constexpr int64_t kHalvedBytes = 64 << 20;
constexpr size_t kCosts = std::size(kMessageSizes) + std::size(kHalved);
constexpr int kRounds = 5;
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

// Of one operation.
struct OperationCost {
  double seconds = 0, processor = 0;
};

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::StatusOr<OperationCost> CostOf(Communicator& communicator, const Operation& op, int times) {
  RETURN_IF_ERROR(Repeat(communicator, op, 4));
  const double begin = Now(), processor = ProcessorSeconds();
  RETURN_IF_ERROR(Repeat(communicator, op, times));
  return OperationCost{.seconds = (Now() - begin) / times,
                       .processor = (ProcessorSeconds() - processor) / times};
}

// `costs`: by rank, then kCosts.
absl::Status MeasureMessages(Communicator& communicator, OperationCost* costs) {
  ASSIGN_OR_RETURN(const GroupId group, communicator.CreateGroup({0, 1}));
  costs += communicator.rank() * kCosts;
  std::vector<std::byte> buffer(kMessageSizes[std::size(kMessageSizes) - 1], std::byte{1});
  for (const int64_t bytes : kMessageSizes) {
    const Operation op = {.kind = OpKind::kSend,
                          .group = group,
                          .count = bytes,
                          .in = buffer.data(),
                          .out = buffer.data()};
    const int times = bytes >= 16 << 20 ? 8 : bytes >= 64 << 10 ? 100 : 4000;
    ASSIGN_OR_RETURN(*costs++, CostOf(communicator, op, times));
  }
  Buffers buffers;
  buffers.in.assign(kHalvedBytes / 4, 1);
  buffers.out.assign(kHalvedBytes / 4, 1);
  buffers.scratch.assign(kHalvedBytes / 4 + 1024, 1);
  for (const OpKind kind : kHalved) {
    const Operation op = {.kind = kind,
                          .group = group,
                          .type = DataType::kF32,
                          .count = kHalvedBytes / 8,
                          .in = buffers.in.data(),
                          .out = buffers.out.data(),
                          .scratch = buffers.AlignedScratch(),
                          .scratch_bytes = static_cast<int64_t>(buffers.scratch.size() * 4 - 64)};
    ASSIGN_OR_RETURN(*costs++, CostOf(communicator, op, 8));
  }
  return absl::OkStatus();
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool Succeeded(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) {
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return false;
  }
  return true;
}

bool CompareMessages(void* memory, nlohmann::json* rows) {
  auto* const costs = static_cast<OperationCost*>(memory);
  std::vector<double> seconds[std::size(kWays)][kCosts], processor[std::size(kWays)][kCosts];
  for (int round = 0; round < kRounds; ++round) {
    for (size_t way = 0; way < std::size(kWays); ++way) {
      const auto body = [&](Communicator& c) { return MeasureMessages(c, costs); };
      if (!Succeeded(RunInProcesses(kWays[way].options, 2, body, {.most_seconds = kMostSeconds}))) {
        return false;
      }
      for (size_t i = 0; i < kCosts; ++i) {
        seconds[way][i].push_back(costs[i].seconds);
        processor[way][i].push_back(costs[i].processor + costs[kCosts + i].processor);
      }
    }
  }
  std::printf(
      "between two processes: time, bandwidth, processor time of both per GiB of the vector\n");
  for (size_t i = 0; i < kCosts; ++i) {
    const bool message = i < std::size(kMessageSizes);
    const int64_t bytes = message ? kMessageSizes[i] : kHalvedBytes;
    const char* const op = message ? "message" : OpName(kHalved[i - std::size(kMessageSizes)]);
    std::printf("%-14s %9s", op, common::FormatBytes(bytes).c_str());
    for (size_t way = 0; way < std::size(kWays); ++way) {
      const double time = MedianOf(seconds[way][i]);
      const double per_gib = MedianOf(processor[way][i]) / bytes * (1 << 30);
      std::printf("  %s %8.1f us %6.2f GB/s %5.2f s", kWays[way].name, time * 1e6,
                  bytes / time / 1e9, per_gib);
      rows->push_back({{"way", kWays[way].name},
                       {"op", op},
                       {"bytes", bytes},
                       {"seconds", time},
                       {"processor_seconds_per_gib", per_gib}});
    }
    std::printf("\n");
  }
  std::fflush(stdout);
  return true;
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

void Report(const char* way, int n, const double* cells, nlohmann::json* rows) {
  std::printf("\n%d processes over %s\n%-16s", n, way, "");
  for (const int64_t bytes : kSizes) std::printf(" %20s", common::FormatBytes(bytes).c_str());
  std::printf("\n");
  for (const OpKind kind : kKinds) {
    std::printf("%-16s", OpName(kind));
    for (const int64_t bytes : kSizes) {
      const double seconds = *cells++;
      if (seconds == 0) continue;
      const double bandwidth = BusFactor(kind, n) * bytes / seconds / 1e9;
      std::printf(" %8.1f us %5.2f GB/s", seconds * 1e6, bandwidth);
      rows->push_back({{"way", way},
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
  bool messages_only = false;
  app.add_flag("--messages", messages_only, "Leave out the operations");
  CLI11_PARSE(app, argc, argv);
  constexpr size_t kBytes = std::max(kCells * sizeof(double), 2 * kCosts * sizeof(OperationCost));
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  nlohmann::json rows = nlohmann::json::array();
  if (!CompareMessages(memory, &rows)) return 1;
  auto* cells = static_cast<double*>(memory);
  for (const Way& way : kWays) {
    for (const int n : {2, 4}) {
      if (messages_only) continue;
      std::fill_n(cells, kCells, 0.0);
      const auto body = [&](Communicator& c) { return Measure(c, cells); };
      if (!Succeeded(RunInProcesses(way.options, n, body, {.most_seconds = kMostSeconds})))
        return 1;
      Report(way.name, n, cells, &rows);
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
