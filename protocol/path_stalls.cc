#include "protocol/path_stalls.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"

namespace strata::protocol {
namespace {

double StallOf(const v1::StepRecord& record, std::initializer_list<absl::string_view> streams) {
  double sum = 0;
  for (const v1::Transfer& transfer : record.transfers()) {
    if (absl::c_linear_search(streams, transfer.stream())) sum += transfer.stall_seconds();
  }
  return sum;
}

// By path, of `stall` seconds; `busy`: by path.
std::vector<double> Shares(double stall, const std::vector<double>& busy) {
  std::vector<size_t> order(busy.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return busy[a] < busy[b]; });
  const double longest = busy[order.back()];
  std::vector<double> shares(busy.size(), stall / static_cast<double>(busy.size()));
  if (longest <= 0) return shares;
  double share = 0, before = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    share += (busy[order[i]] - before) / static_cast<double>(order.size() - i);
    before = busy[order[i]];
    shares[order[i]] = stall * share / longest;
  }
  return shares;
}

}  // namespace

std::vector<PathStall> StallsByPath(const v1::StepRecord& record, const v1::TierMemory& tier) {
  if (tier.paths().empty()) return {};
  std::vector<double> reading, writing;
  for (const v1::PathTraffic& path : tier.paths()) {
    reading.push_back(path.read_seconds());
    writing.push_back(path.write_seconds());
  }
  const std::vector<double> read = Shares(StallOf(record, {"ssd-read", "update-read"}), reading);
  const std::vector<double> write = Shares(StallOf(record, {"ssd-write", "update-write"}), writing);
  std::vector<PathStall> stalls;
  for (size_t p = 0; p < read.size(); ++p) stalls.push_back({read[p], write[p]});
  return stalls;
}

}  // namespace strata::protocol
