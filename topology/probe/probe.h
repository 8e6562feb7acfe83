// What this machine has for training: accelerators, network adapters, disks, and how near they are
// to each other. NVIDIA's management library is looked for at run time; nothing of it is needed to
// build or run.
#ifndef STRATA_TOPOLOGY_PROBE_PROBE_H_
#define STRATA_TOPOLOGY_PROBE_PROBE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata::topology {

// Where a device hangs. `pci` is its address, 0000:3b:00.0, or empty; `numa` -1 when unknown.
struct Attachment {
  std::string pci;
  std::vector<std::string> bridges;  // PCI addresses from the root port down to the device
  int numa = -1;
};

struct Accelerator {
  int index = 0;
  std::string product;  // as the driver names it
  std::string kind;     // h100, …
  Attachment attachment;
  int active_nvlinks = 0;
  // Of the NVLink fabric across nodes: "CLUSTER.CLIQUE", as Kubernetes' label nvidia.com/gpu.clique
  // writes it; empty when there is none, or it is not complete.
  std::string fabric_clique;
};

struct NetworkAdapter {
  std::string name;             // eth0
  std::string rdma;             // mlx5_0; empty when it does no RDMA
  std::string state;            // up, down, unknown; of an InfiniBand port, "4: ACTIVE"
  int64_t bits_per_second = 0;  // 0: unknown
  Attachment attachment;
};

struct Disk {
  std::string name;
  int64_t bytes = 0;
  bool rotational = false;
  Attachment attachment;
};

struct Machine {
  int numa_nodes = 0;
  std::vector<Accelerator> accelerators;
  std::vector<NetworkAdapter> adapters;  // by name
  std::vector<Disk> disks;               // by name
  std::vector<std::string> notes;        // what could not be read, for people
};

struct ProbePaths {
  std::string sys = "/sys";
  std::string nvml = "libnvidia-ml.so.1";  // as dlopen takes it
};

class Probe {
 public:
  explicit Probe(ProbePaths paths) : paths_(std::move(paths)) {}
  // Reads everything anew. What is absent or unreadable is left out, and noted where it matters.
  Machine Read() const;

 private:
  ProbePaths paths_;
};

// How far apart two devices are: bytes take the shortest of these ways.
enum class Nearness { kSameSwitch, kSameRootPort, kSameNuma, kAcrossNuma, kUnknown };
Nearness NearnessOf(const Attachment& a, const Attachment& b);
// "one PCIe switch", …
const char* NameOf(Nearness nearness);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_PROBE_PROBE_H_
