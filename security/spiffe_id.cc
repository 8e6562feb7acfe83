#include "security/spiffe_id.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace strata::security {
namespace {

constexpr absl::string_view kScheme = "spiffe://";
constexpr size_t kLongestId = 2048;      // by the standard
constexpr size_t kLongestCluster = 255;  // likewise

bool IsSegment(absl::string_view text, bool upper_case) {
  if (text.empty() || text == "." || text == "..") return false;
  return std::all_of(text.begin(), text.end(), [upper_case](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_isdigit(byte) || absl::ascii_islower(byte) || c == '.' || c == '_' ||
           c == '-' || (upper_case && absl::ascii_isupper(byte));
  });
}

}  // namespace

std::string SpiffeId::ToString() const {
  return absl::StrCat(kScheme, cluster, path.empty() ? "" : "/", path);
}

absl::StatusOr<SpiffeId> ParseSpiffeId(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, kScheme) && text.size() <= kLongestId) {
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
    const bool good = IsSegment(parts[0], false) && parts[0].size() <= kLongestCluster &&
                      std::all_of(parts.begin() + 1, parts.end(),
                                  [](absl::string_view part) { return IsSegment(part, true); });
    if (good) {
      const size_t slash = rest.find('/');
      return SpiffeId{std::string(parts[0]),
                      slash == rest.npos ? "" : std::string(rest.substr(slash + 1))};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(text.substr(0, 200), " is no name of the form spiffe://CLUSTER/PATH"));
}

}  // namespace strata::security
