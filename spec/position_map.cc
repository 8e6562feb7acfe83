#include "spec/position_map.h"

namespace strata::spec {

Position PositionMap::Of(absl::string_view path) const {
  std::string at(path);
  while (true) {
    const auto found = positions_.find(at);
    if (found != positions_.end()) return found->second;
    const size_t cut = at.find_last_of(".[");
    if (cut == std::string::npos) return Position{};
    at.resize(cut);
  }
}

}  // namespace strata::spec
