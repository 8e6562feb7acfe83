#include "worker/trainer/rank_engine.h"

#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "planner/job/job_plan.h"
#include "program/ir/mesh.h"
#include "worker/trainer/accelerator_kind.h"
#include "worker/trainer/join.h"
#include "worker/trainer/memory_plan.h"
#include "worker/trainer/program_digest.h"
#include "worker/trainer/step_trace.h"
#include "worker/trainer/verification.h"

namespace strata::worker {
namespace {

absl::StatusOr<collectives::OperationRing> MakeRing(ProgressWriter& progress) {
  return collectives::OperationRing::Create(progress.ring(), kRingRecords);
}

// The log is a rank's own where there is a controller; otherwise it is the user's terminal, which
// is told of refusals only.
absl::Status VerifyInTime(const TaskContext& context, const program::ProgramSet& programs,
                          const program::Mesh& mesh,
                          const std::vector<const program::ProgramSet*>& stages) {
  const common::MonotonicClock clock{};
  const double begin = clock.Now();
  const int rank = context.task.rank();
  RETURN_IF_ERROR(VerifyPrograms(programs, stages, mesh, rank));
  if (context.task.has_controlled()) {
    std::fprintf(stderr, "strata-trainer: verified %s in %.0f ms\n", ProgramNames(programs).c_str(),
                 (clock.Now() - begin) * 1e3);
  }
  return absl::OkStatus();
}

bool Trains(const v1::TrainerTask& task) { return task.kind() == v1::TrainerTask::KIND_TRAIN; }

const v1::JobSpec& JobOf(const v1::TrainerTask& task) {
  return Trains(task) ? task.job() : task.request().job();
}

bool ComputesOnDevice(const v1::TrainerTask& task) { return planner::OnAccelerator(JobOf(task)); }

// Devices form every group whole, also where ranks exchange messages with neighbours only.
void AddMembersOfGroups(const program::Mesh& mesh, int rank, v1::Prepared& prepared) {
  std::set<int> peers(prepared.peers().ranks().begin(), prepared.peers().ranks().end());
  for (const program::Group group : program::kGroups) {
    const std::vector<int> members = mesh.Members(group, rank);
    peers.insert(members.begin(), members.end());
  }
  peers.erase(rank);
  prepared.mutable_peers()->mutable_ranks()->Assign(peers.begin(), peers.end());
}

// Agents of a cluster show each rank its device alone; ranks of one machine see all of them.
int OrdinalOf(const v1::TrainerTask& task) { return task.has_controlled() ? 0 : task.rank(); }

// Null where the task computes on the CPU. Rank 0 tells on what.
absl::StatusOr<std::unique_ptr<Accelerator>> OpenAccelerator(const TaskContext& context,
                                                             collectives::Communicator* ranks) {
  const v1::TrainerTask& task = context.task;
  if (!ComputesOnDevice(task)) return nullptr;
  if (context.parts.make_accelerator == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        Trains(task) ? "resources.device: " : "--device: ", JobOf(task).resources().device(),
        ": this trainer computes on the CPU only"));
  }
  ASSIGN_OR_RETURN(NamedAccelerator made, context.parts.make_accelerator(OrdinalOf(task), ranks));
  RETURN_IF_ERROR(CheckKind(task, made));
  if (task.rank() == 0) {
    context.control->Notice(v1::Notice::SEVERITY_INFO, absl::StrCat("computes on ", made.name));
  }
  return std::move(made.accelerator);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::Create(
    const TaskContext& context, const program::ProgramSet& programs, const program::Mesh& mesh,
    const std::vector<const program::ProgramSet*>& stages, const std::string& plan_digest,
    HostOps* host) {
  const int rank = context.task.rank();
  std::unique_ptr<RankEngine> made(new RankEngine(context));
  RETURN_IF_ERROR(VerifyInTime(context, programs, mesh, stages));
  made->sink_.emplace(programs, context.progress);
  made->trace_ = OpenTrace(context, programs, mesh);
  WritePrediction(context, stages, mesh);
  context.progress->SetPhase(Phase::kJoining);
  v1::Prepared prepared = DescribeRank(programs, plan_digest, context.build, mesh, rank);
  if (ComputesOnDevice(context.task)) AddMembersOfGroups(mesh, rank, prepared);
  ASSIGN_OR_RETURN(made->communicator_,
                   Join(*context.control, *context.progress, context.task, std::move(prepared)));
  if (made->communicator_ != nullptr) {
    ASSIGN_OR_RETURN(made->ring_, MakeRing(*context.progress));
    made->communicator_->SetRing(&*made->ring_);
  }
  context.progress->SetPhase(Phase::kLoading);
  ASSIGN_OR_RETURN(made->accelerator_, OpenAccelerator(context, made->communicator_.get()));
  if (made->accelerator_ != nullptr && made->communicator_ != nullptr) {
    // Groups form while the engine is made.
    context.control->SetCancel([ranks = made->communicator_.get(),
                                device = made->accelerator_.get()](const absl::Status& status) {
      device->AbortCommunication(status);
      ranks->Cancel(status);
    });
  }
  if (made->accelerator_ != nullptr) made->memory_.set_device(&made->accelerator_->device());
  EngineOptions options;
  options.accelerator = made->accelerator_.get();
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  options.pool = &made->pool_;
  options.communicator = made->communicator_.get();
  options.host = host;
  options.progress = &*made->sink_;
  ASSIGN_OR_RETURN(options.ssd, OpenPaths(context.task));
  // An accelerator fixes what it copies from and to itself.
  options.fixed_arenas = HasTiers(context.task) && made->accelerator_ == nullptr;
  if (made->trace_ != nullptr) options.trace = made->trace_->records();
  // Bound programs (Engine::program_bytes) are there by then: they count as overhead.
  options.before_arenas = [memory = &made->memory_] { memory->MarkOverhead(); };
  ASSIGN_OR_RETURN(made->engine_, Engine::Create(programs, options));
  context.control->SetCancel(
      [engine = made->engine_.get()](const absl::Status& status) { engine->Cancel(status); });
  if (rank == 0 && made->accelerator_ != nullptr) {
    const std::string remark = made->accelerator_->Remark();
    if (!remark.empty()) context.control->Notice(v1::Notice::SEVERITY_INFO, remark);
  }
  RETURN_IF_ERROR(made->memory_.CheckArenas(*made->engine_));
  // Once: other ranks' step records say it as well.
  if (const std::string lacks = made->memory_.Lacks(*made->engine_); rank == 0 && !lacks.empty()) {
    context.control->Notice(v1::Notice::SEVERITY_WARNING, absl::StrCat("memory: ", lacks));
  }
  return made;
}

absl::Status RankEngine::CloseCommunication() {
  // Ranks come to the end together: a checkpoint's files are written by then.
  constexpr absl::Duration kAtMost = absl::Seconds(60);
  return accelerator_ == nullptr ? absl::OkStatus() : accelerator_->CloseCommunication(kAtMost);
}

RankEngine::~RankEngine() { control_->SetCancel(nullptr); }

}  // namespace strata::worker
