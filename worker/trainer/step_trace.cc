#include "worker/trainer/step_trace.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/host_name.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "program/passes/expand.h"
#include "worker/trainer/step_costs.h"

namespace strata::worker {
namespace {

using program::Mechanism;
using protocol::TraceFile;
using protocol::TraceRecord;

// At most so many steps are kept; of large programs as many as fit (protocol::kMostTraceBytes).
constexpr int64_t kTracedSteps = 32;

bool IsTraced(const TaskContext& context) {
  return context.task.kind() == v1::TrainerTask::KIND_TRAIN &&
         !context.task.job_directory().empty();
}

// Groups that a rank communicates in, numbered as they are met.
class Groups {
 public:
  Groups(const program::Mesh& mesh, int rank, v1::TraceHead* head)
      : mesh_(mesh), rank_(rank), head_(head) {}

  int IndexOf(program::Group group) {
    const auto [found, fresh] = indices_.emplace(group, head_->groups_size());
    if (!fresh) return found->second;
    v1::TraceGroup& added = *head_->add_groups();
    added.set_name(program::Name(group));
    for (const int member : mesh_.Members(group, rank_)) added.add_members(member);
    return found->second;
  }

  int PeerOf(const program::Communication& message) {
    const auto& members = head_->groups(IndexOf(message.group)).members();
    const int size = members.size(), own = mesh_.IndexIn(message.group, rank_);
    return members[((own + message.peer_offset) % size + size) % size];
  }

 private:
  const program::Mesh& mesh_;
  const int rank_;
  v1::TraceHead* const head_;
  std::map<program::Group, int> indices_;
};

std::string OpName(const program::Action& action) {
  if (action.mechanism == Mechanism::kCollective) return program::Name(action.communication.op);
  return action.op != nullptr ? program::Name(action.op->kind) : program::Name(action.mechanism);
}

v1::TraceCommunication CommunicationOf(const program::Action& action, Groups& groups) {
  const program::Communication& what = action.communication;
  v1::TraceCommunication told;
  told.set_group(groups.IndexOf(what.group));
  told.set_bytes(what.bytes);
  if (action.mechanism == Mechanism::kCollective) {
    told.set_kind(v1::TraceCommunication::KIND_COLLECTIVE);
    return told;
  }
  told.set_kind(action.mechanism == Mechanism::kSend ? v1::TraceCommunication::KIND_SEND
                                                     : v1::TraceCommunication::KIND_RECEIVE);
  told.set_peer(groups.PeerOf(what));
  told.set_channel(what.channel);
  return told;
}

// "tensor 1, pipeline 0": where an axis has more than one place.
void AddPlace(const program::Mesh& mesh, int rank, v1::TraceHead& head) {
  const auto add = [&](const char* axis, int size, int index) {
    if (size < 2) return;
    v1::TracePlace& place = *head.add_place();
    place.set_axis(axis);
    place.set_index(index);
  };
  add("tensor", mesh.sizes.tensor, mesh.tensor(rank));
  add("context", mesh.sizes.context, mesh.context(rank));
  add("pipeline", mesh.sizes.pipeline, mesh.stage(rank));
  add("data", mesh.sizes.data, mesh.data(rank));
}

void AddStart(const TaskContext& context, v1::TraceHead& head) {
  head.set_epoch(context.task.plan().epoch());
  head.set_attempt(context.task.plan().attempt());
  head.set_first_step(context.task.plan().start_step() + 1);
  head.set_host(common::HostName());
  head.set_boot(
      std::string(absl::StripAsciiWhitespace(common::TextOf("/proc/sys/kernel/random/boot_id"))));
  head.set_clock_offset_seconds(common::WallSeconds() - common::MonotonicClock().Now());
}

void Warn(const TaskContext& context, const char* what, const absl::Status& status) {
  context.control->Notice(
      v1::Notice::SEVERITY_WARNING,
      absl::StrCat("rank ", context.task.rank(), ": ", what, ": ", std::string(status.message())));
}

absl::StatusOr<std::unique_ptr<TraceFile>> Create(const std::string& job_directory,
                                                  const v1::TraceHead& head) {
  int64_t actions = 1;
  for (const v1::TraceProgram& program : head.programs()) {
    actions = std::max<int64_t>(actions, program.actions_size());
  }
  constexpr int64_t kMost = protocol::kMostTraceBytes / static_cast<int64_t>(sizeof(TraceRecord));
  // With less the step in progress would always have taken the place of a part of the last one.
  if (2 * actions > kMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a step has ", actions, " actions, of which two steps do not fit into the ",
                     protocol::kMostTraceBytes, " bytes of a ring"));
  }
  return TraceFile::Create(job_directory, head, std::min(kMost, kTracedSteps * actions));
}

// When the last walked step's computation begins.
double BeginOf(const program::RankTimes& times, size_t first) {
  const std::vector<program::Action>& actions = times.expanded->actions;
  for (size_t a = 0; a < actions.size(); ++a) {
    if (actions[a].stream == program::Stream::kCompute) return times.spans[first + a].begin;
  }
  return times.spans[first].begin;
}

}  // namespace

v1::TraceHead DescribeTrace(const program::ProgramSet& programs, const program::Mesh& mesh,
                            int rank) {
  v1::TraceHead head;
  head.set_rank(rank);
  head.set_ranks(mesh.ranks());
  head.set_stage(mesh.stage(rank));
  AddPlace(mesh, rank, head);
  for (int s = 0; s < program::kStreamCount; ++s) {
    head.add_streams(program::Name(static_cast<program::Stream>(s)));
  }
  Groups groups(mesh, rank, &head);
  for (const program::Program& program : programs.programs) {
    v1::TraceProgram& told = *head.add_programs();
    told.set_name(program.name);
    told.set_counts_steps(&program == &programs.programs.front());
    for (const program::Instruction& instruction : program.instructions) {
      v1::TraceInstruction& added = *told.add_instructions();
      added.set_label(instruction.label);
      added.set_purpose(program::Name(instruction.purpose));
    }
    for (const program::Action& action : program::Expand(programs, program).actions) {
      v1::TraceAction& added = *told.add_actions();
      added.set_instruction(action.instruction);
      added.set_stream(static_cast<int>(action.stream));
      added.set_op(OpName(action));
      if (!action.is_communication()) continue;
      *added.mutable_communication() = CommunicationOf(action, groups);
    }
  }
  return head;
}

absl::StatusOr<v1::PredictedTrace> PredictTrace(
    const std::vector<const program::ProgramSet*>& stages, const program::Mesh& mesh,
    const program::CostModel& costs) {
  const std::string& name = stages.front()->programs.front().name;
  ASSIGN_OR_RETURN(const program::Timeline timeline,
                   program::PredictTimeline(stages, name, mesh, costs));
  v1::PredictedTrace predicted;
  predicted.set_program(name);
  predicted.set_step_seconds(timeline.step_seconds);
  const std::vector<program::RankTimes>& ranks = timeline.walked.ranks;
  const auto first_of_last = [](const program::RankTimes& times) {
    return times.spans.size() - times.expanded->actions.size();
  };
  double begin = BeginOf(ranks[0], first_of_last(ranks[0]));
  for (const auto& times : ranks) begin = std::min(begin, BeginOf(times, first_of_last(times)));
  std::vector<int> shown(stages.size(), -1);  // the rank that stands for a stage
  for (int r = mesh.ranks() - 1; r >= 0; --r) shown[mesh.stage(r)] = r;
  for (const int r : shown) {
    v1::PredictedStage& stage = *predicted.add_stages();
    for (const program::Span& span : ranks[r].spans.subspan(first_of_last(ranks[r]))) {
      stage.add_begin_seconds(span.begin - begin);
      stage.add_end_seconds(span.end - begin);
    }
  }
  return predicted;
}

std::unique_ptr<TraceFile> OpenTrace(const TaskContext& context,
                                     const program::ProgramSet& programs,
                                     const program::Mesh& mesh) {
  if (!IsTraced(context)) return nullptr;
  v1::TraceHead head = DescribeTrace(programs, mesh, context.task.rank());
  AddStart(context, head);
  absl::StatusOr<std::unique_ptr<TraceFile>> file = Create(context.task.job_directory(), head);
  if (file.ok()) return *std::move(file);
  Warn(context, "steps are not traced", file.status());
  return nullptr;
}

void WritePrediction(const TaskContext& context,
                     const std::vector<const program::ProgramSet*>& stages,
                     const program::Mesh& mesh) {
  if (!IsTraced(context) || stages.empty()) return;
  const planner::NamedCosts costs = BestCostsOf(context.task);
  absl::StatusOr<v1::PredictedTrace> predicted = PredictTrace(stages, mesh, *costs.model);
  absl::Status status = predicted.status();
  if (status.ok()) {
    predicted->set_epoch(context.task.plan().epoch());
    predicted->set_costs(costs.name);
    status = protocol::WritePredictedTrace(context.task.job_directory(), *predicted);
  }
  if (!status.ok()) Warn(context, "the timeline is not kept", status);
}

}  // namespace strata::worker
