#include "protocol/agreement.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rng.h"

namespace strata::protocol {
namespace {

// A group by its name and members. Of its members: who named it, and with which digest first.
using GroupKey = std::pair<std::string, std::vector<int>>;
struct Group {
  int first_rank = 0;
  std::string digest;
  std::map<int, bool> listed_by;
};

absl::Status Differ(int a, int b, const GroupKey& group) {
  return absl::FailedPreconditionError(
      absl::StrCat("ranks ", a, " and ", b, " disagree about the collectives of group ",
                   group.first, " (ranks ", absl::StrJoin(group.second, ", "), ")"));
}

bool Names(const v1::Prepared& prepared, int rank) {
  const auto& peers = prepared.peers().ranks();
  return std::binary_search(peers.begin(), peers.end(), rank);
}

// Whoever is waited for must know of it: a rank names its peers, and is named by them. Ranks of
// before there were peers mean all.
absl::Status CheckPeers(const std::map<int, v1::Prepared>& prepared) {
  const bool all_name = std::all_of(prepared.begin(), prepared.end(),
                                    [](const auto& each) { return each.second.has_peers(); });
  if (!all_name) return absl::OkStatus();
  uint64_t unanswered = 0;  // a sum over pairs, in which those that name each other cancel out
  for (const auto& [rank, answer] : prepared) {
    int last = -1;
    for (const int peer : answer.peers().ranks()) {
      if (peer <= last || peer == rank || peer > prepared.rbegin()->first) {
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", rank, " names peers that cannot be: ", peer, " after ", last));
      }
      last = peer;
      const uint64_t pair = common::MixBits(std::min(rank, peer), std::max(rank, peer));
      unanswered += rank < peer ? pair : -pair;
    }
  }
  if (unanswered == 0) return absl::OkStatus();
  for (const auto& [rank, answer] : prepared) {
    for (const int peer : answer.peers().ranks()) {
      if (Names(prepared.at(peer), rank)) continue;
      return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " exchanges data with rank ",
                                                        peer, ", which does not with rank ", rank));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAgreement(const std::map<int, v1::Prepared>& prepared) {
  std::map<GroupKey, Group> groups;
  std::map<int, int> stages;  // the first rank of each
  for (const auto& [rank, answer] : prepared) {
    const auto& [first, model] = *prepared.begin();
    if (answer.plan_digest() != model.plan_digest()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks ", first, " and ", rank, " follow different plans (", model.plan_digest(), " and ",
          answer.plan_digest(), "): are their nodes of the same build?"));
    }
    const int twin = stages.try_emplace(answer.stage(), rank).first->second;
    if (answer.program_digest() != prepared.at(twin).program_digest()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks ", twin, " and ", rank, " made different programs for stage ", answer.stage(),
          " (", prepared.at(twin).program_digest(), " and ", answer.program_digest(), ")"));
    }
    for (const v1::GroupDigest& group : answer.groups()) {
      const GroupKey key(group.group(), {group.members().begin(), group.members().end()});
      const auto [found, added] = groups.try_emplace(key, Group{rank, group.digest(), {}});
      if (found->second.digest != group.digest()) {
        return Differ(found->second.first_rank, rank, key);
      }
      found->second.listed_by[rank] = true;
    }
  }
  for (const auto& [key, group] : groups) {
    for (const int member : key.second) {
      if (!group.listed_by.contains(member)) return Differ(group.first_rank, member, key);
    }
    if (group.listed_by.size() != key.second.size()) {
      return absl::FailedPreconditionError(absl::StrCat("a rank lists group ", key.first,
                                                        " (ranks ", absl::StrJoin(key.second, ", "),
                                                        ") without being in it"));
    }
  }
  return CheckPeers(prepared);
}

}  // namespace strata::protocol
