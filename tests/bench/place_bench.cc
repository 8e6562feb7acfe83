// Placement and rank map on one core, with random occupancy and failures; a replacement after a
// node's failure; and the published Llama 3 case against other orders.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "scheduler/placement/llama3.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/random_cases.h"

namespace strata::bench {
namespace {

using scheduler::Device;
using scheduler::Draw;
using scheduler::Occupancy;
using scheduler::Placement;
using scheduler::Shape;
using topology::Cluster;

// Of this thread's processor time: what other programs take does not count.
double Milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// Up to 60 % of the nodes busy, some partly, one in a hundred failed.
Occupancy RandomOccupancy(const Cluster& cluster, Draw& draw) {
  Occupancy occupancy = Occupancy::Ideal(cluster);
  const int busy = draw.Below(61);
  for (uint64_t& free : occupancy.free) {
    if (draw.Chance(1) || draw.Chance(busy)) free = 0;
    if (draw.Chance(10)) free &= static_cast<uint64_t>(draw.Below(256));
  }
  return occupancy;
}

// From one device to all that are free.
Shape RandomShape(const Occupancy& occupancy, Draw& draw) {
  int64_t whole = 0;
  for (const uint64_t free : occupancy.free) whole += free == 0xff;
  Shape shape = scheduler::Llama3Shape();
  shape.traffic[1] = {.next_bytes = 4e9, .messages = 1000, .exposed = 0.1};
  shape.degrees = {int64_t{1} << draw.Below(4), 1, 1, 1, 1, 1};
  const int64_t most = std::max<int64_t>(1, whole * 8 / shape.degrees[0] >> draw.Below(10));
  for (const size_t dimension : {1, 3}) {
    const int64_t degree = int64_t{1} << draw.Below(5);
    if (draw.Chance(60) && shape.ranks() / shape.degrees[0] * degree <= most) {
      shape.degrees[dimension] = degree;
    }
  }
  shape.degrees[4] = std::max<int64_t>(1, most / (shape.ranks() / shape.degrees[0]));
  shape.spares = draw.Below(4);
  return shape;
}

struct Round {
  double milliseconds = 0;
  int number = 0;
  Shape shape;
  bool placed = false;
};

struct Times {
  std::vector<double> place, replace;
  std::vector<Round> rounds;
  int refused = 0;
  int kept = 0;  // replacements found
  int64_t largest = 0;
};

Times Measure(const Cluster& cluster, int rounds) {
  Times times;
  for (int round = 0; round < rounds; ++round) {
    Draw draw(round);
    Occupancy occupancy = RandomOccupancy(cluster, draw);
    const Shape shape = RandomShape(occupancy, draw);
    double begin = Milliseconds();
    const auto placement = scheduler::Place(cluster, occupancy, shape);
    times.place.push_back(Milliseconds() - begin);
    times.rounds.push_back({times.place.back(), round, shape, placement.has_value()});
    if (!placement) {
      ++times.refused;
      continue;
    }
    times.largest = std::max(times.largest, shape.ranks());
    for (const Device& device : placement->ranks) {
      occupancy.free[device.node] &= ~(uint64_t{1} << device.device);
    }
    Placement old = *placement;
    const int lost = old.ranks[old.ranks.size() / 2].node;
    occupancy.free[lost] = 0;
    for (Device& device : old.ranks) {
      if (device.node == lost) device = {};
    }
    begin = Milliseconds();
    times.kept += scheduler::Replace(cluster, occupancy, shape, old, old.spares).has_value();
    times.replace.push_back(Milliseconds() - begin);
  }
  return times;
}

void PrintSlowest(std::vector<Round> rounds, int count) {
  std::stable_sort(rounds.begin(), rounds.end(),
                   [](const Round& a, const Round& b) { return a.milliseconds > b.milliseconds; });
  for (int i = 0; i < std::min<int>(count, static_cast<int>(rounds.size())); ++i) {
    const Round& round = rounds[i];
    std::printf("  round %3d  %7.2f ms  tensor %d context %d pipeline %d data %d  %s\n",
                round.number, round.milliseconds, static_cast<int>(round.shape.degrees[0]),
                static_cast<int>(round.shape.degrees[1]), static_cast<int>(round.shape.degrees[3]),
                static_cast<int>(round.shape.degrees[4]), round.placed ? "placed" : "refused");
  }
}

void PrintTimes(const char* name, const Cluster& cluster, int rounds, int slowest) {
  const Times times = Measure(cluster, rounds);
  std::printf("%-8s %7zu  %6d %7d %8lld  %8.2f %8.2f %8.2f  %8.2f %8.2f\n", name,
              cluster.nodes().size(), rounds, times.refused, static_cast<long long>(times.largest),
              Quantile(times.place, 0.5), Quantile(times.place, 0.99), Quantile(times.place, 1),
              Quantile(times.replace, 0.5), Quantile(times.replace, 0.99));
  PrintSlowest(times.rounds, slowest);
}

void PrintOrder(const char* name, const scheduler::Cost& cost) {
  std::printf("%-11s %9.1f %9.1f %9.1f %9.1f %8.2f\n", name, cost.bytes[0] / 1e12,
              cost.bytes[1] / 1e12, cost.bytes[2] / 1e12, cost.bytes[3] / 1e12,
              cost.exposed_seconds);
}

void PrintLlama3() {
  const Cluster cluster = scheduler::PodsOf(8, 192);
  const Shape shape = scheduler::Llama3Shape();
  const auto placement = scheduler::Place(cluster, Occupancy::Now(cluster), shape);
  if (!placement) {
    std::printf("Llama 3 does not fit\n");
    return;
  }
  std::printf("\nLlama 3 405B, tensor 8, pipeline 16, data 128, on 8 zones of 3,072\n");
  std::printf("TB per step  root (zones)    zone      rack    domain  exposed s\n");
  PrintOrder("placed", placement->cost);
  for (const auto& other : scheduler::CompareOrders(cluster, shape, *placement)) {
    PrintOrder(other.name.c_str(), other.cost);
  }
}

int Run(int rounds, int slowest) {
  std::printf(
      "devices    nodes  rounds refused  largest  place p50      p99      max  "
      "replace p50   p99 (ms)\n");
  PrintTimes("1,024", scheduler::PodsOf(4, 16), rounds, slowest);
  PrintTimes("16,384", scheduler::PodsOf(8, 128), rounds, slowest);
  PrintTimes("100,000", scheduler::PodsOf(25, 250), rounds, slowest);
  PrintLlama3();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  int rounds = 300;
  CLI::App app("Placement of jobs of all sizes on one core.", "place_bench");
  app.add_option("--rounds", rounds, "placements per cluster")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  int slowest = 0;
  app.add_option("--slowest", slowest, "rounds of each cluster to show, the slowest first");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }
  return strata::bench::Run(rounds, slowest);
}
