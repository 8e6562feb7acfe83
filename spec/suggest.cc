#include "spec/suggest.h"

#include <algorithm>
#include <array>

namespace strata::spec {

int EditDistance(absl::string_view a, absl::string_view b) {
  constexpr size_t kLongest = 64;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  // Rows i-2, i-1 and i of the table: distances between prefixes of `a` and of `b`.
  std::array<std::array<int, kLongest + 1>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const auto& above2 = rows[(i + 1) % 3];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], above2[j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

bool IsNear(int distance, absl::string_view word) {
  return distance <= std::max(1, static_cast<int>(word.size()) / 3);
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string* nearest = nullptr;
  int least = 0;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (!IsNear(distance, candidate) || (nearest != nullptr && distance >= least)) continue;
    nearest = &candidate;
    least = distance;
  }
  return nearest == nullptr ? "" : *nearest;
}

}  // namespace strata::spec
