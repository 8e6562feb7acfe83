#include "worker/trainer/program_digest.h"

#include <vector>

#include "program/readers/dump.h"
#include "program/readers/peers.h"

namespace strata::worker {

void DescribePrograms(const program::ProgramSet& set, v1::JobPlan& plan) {
  int64_t parameters = 0;
  for (const program::ParameterSet& each : set.sets) parameters += each.parameters();
  plan.set_parameters(parameters);
  for (int t = 0; t < program::kTierCount; ++t) {
    if (set.arena_bytes[t] == 0) continue;
    v1::TierBytes* const tier = plan.add_predicted();
    tier->set_tier(program::Name(static_cast<program::Tier>(t)));
    tier->set_bytes(set.arena_bytes[t]);
  }
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
