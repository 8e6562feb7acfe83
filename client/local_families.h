// What steps of `strata run` took beside what was predicted of them: kept beside the profile that
// predicted them, so that the next plans on this machine are corrected without a cluster.
#ifndef STRATA_CLIENT_LOCAL_FAMILIES_H_
#define STRATA_CLIENT_LOCAL_FAMILIES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/step_comparison.h"

namespace strata::client {

inline constexpr size_t kMostLocalFamilies = 256;  // the one not heard of for longest goes

// PROFILE.families.textproto, of the profile that `profile` names (machine_profile.h).
std::string FamiliesPath(const std::string& profile);

// None: nothing was kept yet. InvalidArgument: the file cannot be read as what it should be.
absl::StatusOr<planner::LearnedFamilies> LoadFamilies(const std::string& profile);

// Runs at the same time wait for each other. A file that cannot be read as families begins anew.
// InvalidArgument, Unavailable: it cannot be written there. `wall`: seconds since 1970.
absl::Status KeepComparison(const std::string& profile, const planner::FamilyKey& key,
                            const planner::ComparedSteps& steps, double wall);

// Of a family that both know, what `first` says.
planner::LearnedFamilies Merged(planner::LearnedFamilies first,
                                const planner::LearnedFamilies& second);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_FAMILIES_H_
