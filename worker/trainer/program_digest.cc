#include "worker/trainer/program_digest.h"

#include <algorithm>
#include <vector>

#include "program/readers/dump.h"
#include "program/readers/peers.h"

namespace strata::worker {

void DescribeArenas(const std::vector<const program::ProgramSet*>& stages,
                    const program::Mesh& mesh, v1::JobPlan& plan) {
  const auto add = [](int tier, int64_t bytes, auto* predicted) {
    if (bytes == 0) return;
    v1::TierBytes* const told = predicted->Add();
    told->set_tier(program::Name(static_cast<program::Tier>(tier)));
    told->set_bytes(bytes);
  };
  for (int t = 0; t < program::kTierCount; ++t) {
    int64_t most = 0;
    for (const program::ProgramSet* stage : stages) most = std::max(most, stage->arena_bytes[t]);
    add(t, most, plan.mutable_predicted());
  }
  if (stages.size() < 2) return;
  for (const program::ProgramSet* stage : stages) {
    v1::StageMemory& told = *plan.add_stages();
    for (int t = 0; t < program::kTierCount; ++t) {
      add(t, stage->arena_bytes[t], told.mutable_predicted());
    }
  }
  int rank = 1;
  while (mesh.stage(rank) == 0) ++rank;
  plan.set_stage_stride(rank);
}

v1::Prepared DescribeRank(const program::ProgramSet& set, const std::string& plan_digest,
                          const std::string& build, const program::Mesh& mesh, int rank) {
  v1::Prepared prepared;
  prepared.set_plan_digest(plan_digest);
  prepared.set_stage(mesh.stage(rank));
  prepared.set_program_digest(program::ProgramDigest(set, build));
  for (const auto& [group, digest] : program::GroupDigests(set)) {
    v1::GroupDigest* const described = prepared.add_groups();
    described->set_group(program::Name(group));
    for (const int member : mesh.Members(group, rank)) described->add_members(member);
    described->set_digest(digest);
  }
  const std::vector<int> peers = program::PeersOf(set, mesh, rank);
  prepared.mutable_peers()->mutable_ranks()->Add(peers.begin(), peers.end());
  return prepared;
}

}  // namespace strata::worker
