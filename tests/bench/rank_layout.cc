#include "tests/bench/rank_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/status_macros.h"
#include "data/corpus.h"
#include "program/readers/dump.h"
#include "program/readers/peers.h"
#include "worker/trainer/training_program.h"

namespace strata::bench {
namespace {

constexpr char kBuild[] = "bench";

data::Corpus ByteCorpus() {
  data::Corpus corpus;
  corpus.vocabulary = 256;
  return corpus;
}

v1::TrainerTask TaskOf(const v1::JobSpec& job, int ranks) {
  v1::TrainerTask task;
  task.set_kind(v1::TrainerTask::KIND_TRAIN);
  *task.mutable_job() = job;
  task.set_ranks(ranks);
  task.set_threads(1);
  return task;
}

// All members of its groups, without itself.
std::vector<int> MembersOf(const std::map<program::Group, std::string>& groups,
                           const program::Mesh& mesh, int rank) {
  std::set<int> found;
  for (const auto& [group, digest] : groups) {
    const std::vector<int> members = mesh.Members(group, rank);
    found.insert(members.begin(), members.end());
  }
  found.erase(rank);
  return {found.begin(), found.end()};
}

}  // namespace

absl::StatusOr<RankLayout> RankLayout::Of(const v1::JobSpec& job) {
  RankLayout layout;
  layout.job_ = job;
  layout.ranks_ = static_cast<int>(job.resources().ranks());
  const v1::TrainerTask task = TaskOf(job, layout.ranks_);
  ASSIGN_OR_RETURN(const worker::TrainingProgram first,
                   worker::CompileTraining(task, ByteCorpus(), kBuild));
  layout.plan_digest_ = first.digest;
  ASSIGN_OR_RETURN(const std::vector<program::StagePrograms> stages,
                   worker::CompileStages(task, ByteCorpus(), kBuild));
  for (const program::StagePrograms& stage : stages) {
    layout.stages_.push_back(
        {program::ProgramDigest(stage.set, kBuild), program::GroupDigests(stage.set)});
  }
  // A trainer looks at every message of its programs. Here the members of its groups have to do,
  // for each of very many ranks: they are the same.
  std::set<int> seen;  // stages
  for (int rank = 0; seen.size() < stages.size(); ++rank) {
    const int stage = first.mesh.stage(rank);
    if (!seen.insert(stage).second) continue;
    const std::vector<int> peers = program::PeersOf(stages[stage].set, first.mesh, rank);
    if (peers != MembersOf(layout.stages_[stage].groups, first.mesh, rank)) {
      return absl::InternalError("ranks exchange with fewer than all members of their groups");
    }
    layout.most_peers_ = std::max(layout.most_peers_, static_cast<int>(peers.size()));
  }
  return layout;
}

absl::StatusOr<program::Mesh> RankLayout::MeshOf(const Order& order) const {
  v1::TrainerTask task = TaskOf(job_, ranks_);
  *task.mutable_rank_order() = order;
  ASSIGN_OR_RETURN(const worker::TrainingProgram program,
                   worker::CompileTraining(task, ByteCorpus(), kBuild));
  return program.mesh;
}

v1::Prepared RankLayout::Describe(const program::Mesh& mesh, int rank) const {
  constexpr size_t kAddressBytes = 200;
  const Stage& stage = stages_[mesh.stage(rank)];
  v1::Prepared prepared;
  prepared.set_address(std::string(kAddressBytes, static_cast<char>('a' + rank % 26)));
  prepared.set_plan_digest(plan_digest_);
  prepared.set_program_digest(stage.program_digest);
  prepared.set_stage(mesh.stage(rank));
  for (const auto& [group, digest] : stage.groups) {
    v1::GroupDigest& described = *prepared.add_groups();
    described.set_group(program::Name(group));
    for (const int member : mesh.Members(group, rank)) described.add_members(member);
    described.set_digest(digest);
  }
  const std::vector<int> peers = MembersOf(stage.groups, mesh, rank);
  if (static_cast<int>(peers.size()) + 1 == ranks_) return prepared;  // as Join does
  prepared.mutable_peers()->mutable_ranks()->Add(peers.begin(), peers.end());
  return prepared;
}

}  // namespace strata::bench
