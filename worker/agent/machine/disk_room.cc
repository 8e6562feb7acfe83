#include "worker/agent/machine/disk_room.h"

#include <filesystem>
#include <system_error>

namespace strata::worker {
std::optional<int64_t> FreeBytes(const std::string& directory) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

}  // namespace strata::worker
