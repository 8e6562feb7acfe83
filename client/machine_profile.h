// What this machine was measured to take, as users' commands find it.
#ifndef STRATA_CLIENT_MACHINE_PROFILE_H_
#define STRATA_CLIENT_MACHINE_PROFILE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::client {

// `named` (--profile), or this user's of this host: $XDG_CONFIG_HOME, or ~/.config, then
// strata/profiles/HOST.textproto.
std::string ProfilePath(const std::string& named);

// None: the user's own is not there. InvalidArgument: a named one is not there, or its text is no
// profile, with the place.
absl::StatusOr<std::optional<v1::Profile>> LoadProfile(const std::string& named);

// Writes what was measured, beside what the file has of the same machine (MergedProfiles); a file
// that cannot be read is replaced. Makes the folders. InvalidArgument, Unavailable: it cannot be
// written there.
absl::Status AddToProfile(const std::string& path, const v1::Profile& measured);

}  // namespace strata::client

#endif  // STRATA_CLIENT_MACHINE_PROFILE_H_
