#include "memory/fixed_pages.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "memory/numa.h"

namespace strata::memory {
namespace {

constexpr int64_t kPage = 4096;
constexpr int kMostNodes = 1024;

void Add(const std::string& lack, std::string* lacks) {
  absl::StrAppend(lacks, lacks->empty() ? "" : "; ", lack);
}

// Of the range's mappings, which its policy, advice and lock set apart from their neighbours'.
int64_t HugeBytes(const std::byte* data, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  std::ifstream mappings("/proc/self/smaps");
  bool inside = false;
  int64_t huge = 0;
  for (std::string line; std::getline(mappings, line);) {
    uintptr_t from = 0, to = 0;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      inside = from < end && begin < to;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %" SCNd64, &kib) == 1) {
      huge += kib << 10;
    }
  }
  return std::min(huge, bytes);
}

// -1: the system does not say.
int64_t MisplacedBytes(std::byte* data, int64_t bytes, int node) {
  std::array<void*, 4096> pages;
  std::array<int, 4096> nodes;
  int64_t misplaced = 0;
  for (int64_t at = 0; at < bytes;) {
    size_t count = 0;
    for (; at < bytes && count < pages.size(); at += kPage) pages[count++] = data + at;
    if (syscall(SYS_move_pages, 0, count, pages.data(), nullptr, nodes.data(), 0) != 0) return -1;
    misplaced += kPage * std::count_if(nodes.begin(), nodes.begin() + static_cast<int64_t>(count),
                                       [node](int found) { return found != node; });
  }
  return misplaced;
}

}  // namespace

int PreferNearNode(std::byte* data, int64_t bytes, std::string* lacks) {
  const int node = NumaNodes().OfThread();
  if (node < 0 || node >= kMostNodes) return -1;
  std::array<unsigned long, kMostNodes / (sizeof(long) * CHAR_BIT)> mask{};
  constexpr size_t kBits = sizeof(long) * CHAR_BIT;
  mask[node / kBits] |= 1UL << node % kBits;
  // Preferred, not bound: a node that is full would end the process.
  if (syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask.data(), kMostNodes, 0) != 0) {
    Add(absl::StrCat("host memory is not placed by node: mbind: ", std::strerror(errno),
                     " — containers need CAP_SYS_NICE for it"),
        lacks);
  }
  return node;
}

PageReport FixPages(std::byte* data, int64_t bytes, int node, std::string lacks) {
  PageReport report{.bytes = bytes, .node = node, .lacks = std::move(lacks)};
  // Not mlock(3): sanitizers make it a call that does nothing.
  if (syscall(SYS_mlock, data, bytes) == 0) {
    report.locked_bytes = bytes;
  } else {
    Add(absl::StrCat(common::FormatBytes(bytes),
                     " of host memory are not locked: mlock: ", std::strerror(errno),
                     " — raise the limit (ulimit -l; LimitMEMLOCK of a service), or grant "
                     "CAP_IPC_LOCK"),
        &report.lacks);
  }
  report.huge_bytes = HugeBytes(data, bytes);
  if (node >= 0) report.misplaced_bytes = MisplacedBytes(data, bytes, node);
  return report;
}

}  // namespace strata::memory
