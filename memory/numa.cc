#include "memory/numa.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace strata::memory {

namespace fs = std::filesystem;

namespace {

std::string FirstWord(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// "0-3,8,10-11".
std::vector<int> Listed(const std::string& text) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return {};
    if (ends.second.empty()) {
      last = first;
    } else if (!absl::SimpleAtoi(ends.second, &last)) {
      return {};
    }
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

bool NumaNodes::several() const {
  return Listed(FirstWord(fs::path(root_) / "devices/system/node/online")).size() > 1;
}

int NumaNodes::OfThread() const {
  unsigned processor = 0, node = 0;
  if (!several() || getcpu(&processor, &node) != 0) return -1;
  return static_cast<int>(node);
}

int NumaNodes::OfDisk(const std::string& path) const {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return -1;
  return OfDevice(major(found.st_dev), minor(found.st_dev));
}

// A partition lies below its disk, that below its controller, which knows.
int NumaNodes::OfDevice(unsigned major, unsigned minor) const {
  if (!several()) return -1;
  std::error_code error;
  const fs::path link = fs::path(root_) / "dev/block" / absl::StrCat(major, ":", minor);
  fs::path device = fs::canonical(link, error);
  if (error) return -1;
  const fs::path top = fs::canonical(root_, error);
  for (; !error && device != top && device.has_relative_path(); device = device.parent_path()) {
    int node = -1;
    if (absl::SimpleAtoi(FirstWord(device / "numa_node"), &node) && node >= 0) return node;
  }
  return -1;
}

std::vector<int> NumaNodes::ProcessorsOf(int node) const {
  return Listed(
      FirstWord(fs::path(root_) / absl::StrCat("devices/system/node/node", node) / "cpulist"));
}

NodeScope::NodeScope(int node, const NumaNodes& nodes) {
  if (node < 0 || sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int processor : nodes.ProcessorsOf(node)) {
    if (processor < CPU_SETSIZE && CPU_ISSET(processor, &before_)) CPU_SET(processor, &wanted);
  }
  bound_ = CPU_COUNT(&wanted) > 0 && sched_setaffinity(0, sizeof(wanted), &wanted) == 0;
}

NodeScope::~NodeScope() {
  if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace strata::memory
