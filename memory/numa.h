// The NUMA node where host memory and the threads that work on it belong: that of the disk whose
// bytes pass through, else the calling thread's. On machines of one node nothing is done.
#ifndef STRATA_MEMORY_NUMA_H_
#define STRATA_MEMORY_NUMA_H_

#include <sched.h>

#include <string>
#include <vector>

namespace strata::memory {

// As Linux tells them below /sys; tests have folders of their own.
class NumaNodes {
 public:
  explicit NumaNodes(std::string root = "/sys") : root_(std::move(root)) {}

  // A machine that does not say has one.
  bool several() const;
  // Of the calling thread's processor, and of the disk that keeps `path`, by its device number; -1:
  // the machine has one, or does not say (as of disks behind a network).
  int OfThread() const;
  int OfDisk(const std::string& path) const;
  int OfDevice(unsigned major, unsigned minor) const;
  // Ascending; none: there is no such node.
  std::vector<int> ProcessorsOf(int node) const;

 private:
  const std::string root_;
};

// While one lives, the calling thread runs on the node's processors, and threads that it makes stay
// there. Nothing where `node` is -1 or the thread may use none of its processors.
class NodeScope {
 public:
  explicit NodeScope(int node, const NumaNodes& nodes = NumaNodes());
  ~NodeScope();
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

 private:
  bool bound_ = false;
  cpu_set_t before_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_NUMA_H_
