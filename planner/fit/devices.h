// Devices by name: how many bytes a process may use on one, and what the runtime takes of them.
#ifndef STRATA_PLANNER_FIT_DEVICES_H_
#define STRATA_PLANNER_FIT_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::planner {

struct FitDevice {
  std::string name = "cpu";
  int64_t bytes = 0;   // of one device; 0: not known, or none of its own
  bool is_cpu = true;  // kernels compute in host memory
  // Trainers take cuDNN's attention on it by themselves (worker/trainer/attention_choice.h).
  bool library_attention = false;
  // One memory for device and host: what is placed on the host frees nothing.
  bool host_is_device = false;
  bool coherent = false;   // device and host reach each other's memory without faults
  int64_t host_bytes = 0;  // its share of the host's memory; 0: not known
};

// Cards of a node, where nobody tells how many: those share its host memory and disks.
inline constexpr int kDevicesPerNode = 8;

// What a process takes of a device beside Strata's arena.
struct OverheadItem {
  std::string what;
  int64_t bytes = 0;
  std::string source;
};

// "cpu", a kind of card that the catalog knows ("h100", "a100-80"), or a size for one that it lacks
// ("24GB", already read as `sized_bytes`; 0: not a size). NotFound lists the kinds.
absl::StatusOr<FitDevice> DeviceOf(absl::string_view text, int64_t sized_bytes);

// What overhead follows from, of one rank.
struct OverheadFacts {
  int communicators = 0;  // groups of more than one rank
  int64_t arena_bytes = 0;
  bool library_attends = false;  // LibraryMayAttend
};
// None on CPUs.
std::vector<OverheadItem> OverheadOf(const FitDevice& device, const OverheadFacts& facts);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_DEVICES_H_
