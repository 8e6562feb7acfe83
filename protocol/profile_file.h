// A machine's profile as a text file: written by `strata calibrate`, read by clients and agents.
#ifndef STRATA_PROTOCOL_PROFILE_FILE_H_
#define STRATA_PROTOCOL_PROFILE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::protocol {

// FOLDER/profiles/HOST.textproto, of this host.
std::string ProfilePathIn(const std::string& folder);

// InvalidArgument, "PATH:LINE:COLUMN: what is wrong — what to do", for text that is no profile;
// without a place for numbers that nothing can take.
absl::StatusOr<v1::Profile> ParseProfile(const std::string& path, const std::string& text);

// What was measured now, and what was known of the same machine and was not measured again: the
// processor, devices of other kinds, other disks. Of another machine nothing is kept.
v1::Profile MergedProfiles(const v1::Profile& known, const v1::Profile& measured);

std::string ProfileText(const v1::Profile& profile);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_PROFILE_FILE_H_
