#include "planner/search/rank_room.h"

#include <algorithm>

namespace strata::planner {
namespace {

std::string ShortName(const std::string& name) { return name.substr(name.find('/') + 1); }

}  // namespace

void TakeLeast(const v1::Node& node, const std::string& device, int64_t ranks, RankRoom& room) {
  const bool cpu = device.empty() || device == "cpu";
  if (device == "gpu" ? node.device() == "cpu" : node.device() != (cpu ? "cpu" : device)) return;
  const int64_t here = std::clamp<int64_t>(ranks, 1, std::max(1, node.devices()));
  const int64_t host = node.host_memory_bytes() / here;
  if (host > 0 && (room.host == 0 || host < room.host)) {
    room.host = host;
    room.host_node = ShortName(node.name());
  }
  const int64_t of_device = cpu ? 0 : node.device_memory_bytes();
  if (of_device > 0 && (room.device == 0 || of_device < room.device)) {
    room.device = of_device;
    room.device_node = ShortName(node.name());
    room.kind = node.device();
  }
}

}  // namespace strata::planner
