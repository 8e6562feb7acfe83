#include "worker/agent/agreement.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

bool SameMembers(const v1::GroupDigest& a, const v1::GroupDigest& b) {
  return std::equal(a.members().begin(), a.members().end(), b.members().begin(), b.members().end());
}

absl::Status CheckGroup(int rank, const v1::GroupDigest& group,
                        const std::vector<v1::Prepared>& prepared) {
  const std::string members = absl::StrJoin(group.members(), ", ");
  if (std::count(group.members().begin(), group.members().end(), rank) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " is not in its group ", group.group(), " of ranks ", members));
  }
  for (const int other : group.members()) {
    if (other < 0 || other >= static_cast<int>(prepared.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, ": group ", group.group(), " has a rank ", other, " that does not exist"));
    }
    const auto& groups = prepared[other].groups();
    const auto twin = std::find_if(groups.begin(), groups.end(), [&](const v1::GroupDigest& g) {
      return g.group() == group.group() && SameMembers(g, group);
    });
    if (twin == groups.end() || twin->digest() != group.digest()) {
      return absl::FailedPreconditionError(absl::StrCat("ranks ", rank, " and ", other,
                                                        " disagree about the collectives of group ",
                                                        group.group(), " (ranks ", members, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAgreement(const std::string& plan_digest,
                            const std::vector<v1::Prepared>& prepared) {
  std::map<int, int> first_of_stage;  // ranks
  for (int rank = 0; rank < static_cast<int>(prepared.size()); ++rank) {
    if (prepared[rank].plan_digest() != plan_digest) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " follows another plan (",
                                                        prepared[rank].plan_digest(), ") than ",
                                                        plan_digest));
    }
    const int stage = prepared[rank].stage();
    const int first = first_of_stage.try_emplace(stage, rank).first->second;
    if (prepared[rank].program_digest() != prepared[first].program_digest()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks ", first, " and ", rank, " made different programs for stage ", stage, " (",
          prepared[first].program_digest(), " and ", prepared[rank].program_digest(), ")"));
    }
    for (const v1::GroupDigest& group : prepared[rank].groups()) {
      RETURN_IF_ERROR(CheckGroup(rank, group, prepared));
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
