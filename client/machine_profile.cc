#include "client/machine_profile.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/text_file.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "protocol/profile_file.h"

namespace strata::client {
namespace {

constexpr size_t kMostBytes = 16 << 20;

}  // namespace

std::string ProfilePath(const std::string& named) {
  if (!named.empty()) return named;
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') {
    return protocol::ProfilePathIn(absl::StrCat(config, "/strata"));
  }
  const char* const home = std::getenv("HOME");
  return protocol::ProfilePathIn(absl::StrCat(home == nullptr ? "" : home, "/.config/strata"));
}

absl::StatusOr<std::optional<v1::Profile>> LoadProfile(const std::string& named) {
  const std::string path = ProfilePath(named);
  std::error_code error;
  if (named.empty() && !std::filesystem::exists(path, error)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostBytes, "profile"));
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too large to be a profile"));
  }
  return protocol::ParseProfile(path, text);
}

absl::Status AddToProfile(const std::string& path, const v1::Profile& measured) {
  v1::Profile profile = measured;
  const absl::StatusOr<std::optional<v1::Profile>> known = LoadProfile(path);
  if (known.ok() && known->has_value()) profile = protocol::MergedProfiles(**known, measured);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.string(), ": cannot be made (", error.message(), ")"));
  }
  return common::ReplaceFile(path, protocol::ProfileText(profile), /*durable=*/false);
}

}  // namespace strata::client
