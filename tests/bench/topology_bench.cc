// How fast topology files are read: text to Description, and Description to Cluster.
//
//   topology_bench [NODES…]     default: 12500 and 100000 nodes; three spellings each
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topology/cluster.h"
#include "topology/import/topology_file.h"

namespace strata::topology {
namespace {

constexpr char kHead[] =
    "levels: [region, zone, rack, domain]\n"
    "links:\n"
    "  zone: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}\n"
    "  domain: {bytes_per_second: 450e9, latency_seconds: 1e-6}\n"
    "nodes:\n";

std::string Lines(int nodes) {
  std::string text = kHead;
  for (int i = 0; i < nodes; ++i) {
    absl::StrAppend(&text, "  - {name: n", i, ", at: {region: us, zone: z", i / 384, ", rack: r",
                    i / 16, ", domain: d", i / 2,
                    "}, device: h100, devices: 8, free: 8, healthy: true}\n");
  }
  return text;
}

std::string Blocks(int nodes) {
  std::string text = kHead;
  for (int i = 0; i < nodes; ++i) {
    absl::StrAppend(&text, "- at:\n    domain: d", i / 2, "\n    rack: r", i / 16,
                    "\n    region: us\n    zone: z", i / 384);
    absl::StrAppend(&text, "\n  device: h100\n  devices: 8\n  free:\n  - 0\n  - 1\n  name: n", i,
                    "\n");
  }
  return text;
}

// A tab before a comment is not plain: all goes through the full reader.
std::string Unusual(int nodes) { return absl::StrCat(Lines(nodes), "#\tend\n"); }

bool Measure(const char* spelling, const std::string& text) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto seconds = [](auto from, auto to) {
    return std::chrono::duration<double>(to - from).count();
  };
  std::vector<double> reading, making;
  size_t nodes = 0;
  for (int run = 0; run < 3; ++run) {
    const auto begin = now();
    absl::StatusOr<Description> description = ReadTopologyFile(text, "bench.yaml");
    const auto read = now();
    if (!description.ok()) {
      std::fprintf(stderr, "%s", std::string(description.status().message()).c_str());
      return false;
    }
    const absl::StatusOr<Cluster> cluster = Cluster::Make(*std::move(description));
    if (!cluster.ok()) return false;
    nodes = cluster->nodes().size();
    reading.push_back(seconds(begin, read));
    making.push_back(seconds(read, now()));
  }
  std::sort(reading.begin(), reading.end());
  std::sort(making.begin(), making.end());
  std::printf("%-10s %8zu nodes %6.1f MiB   read %7.1f ms   arrange %7.1f ms   sum %7.1f ms\n",
              spelling, nodes, static_cast<double>(text.size()) / (1 << 20), reading[1] * 1e3,
              making[1] * 1e3, (reading[1] + making[1]) * 1e3);
  return true;
}

}  // namespace
}  // namespace strata::topology

int main(int argc, char** argv) {
  using strata::topology::Measure;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) {
    int nodes = 0;
    if (!absl::SimpleAtoi(argv[i], &nodes) || nodes < 1 || nodes > 400000) {
      std::fprintf(stderr, "usage: topology_bench [NODES…] (1 to 400000 each)\n");
      return EXIT_FAILURE;
    }
    sizes.push_back(nodes);
  }
  if (sizes.empty()) sizes = {12500, 100000};
  bool good = true;
  for (const int nodes : sizes) {
    good = good && Measure("lines", strata::topology::Lines(nodes));
    good = good && Measure("blocks", strata::topology::Blocks(nodes));
    good = good && Measure("unusual", strata::topology::Unusual(nodes));
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
