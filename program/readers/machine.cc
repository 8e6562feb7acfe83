#include "program/readers/machine.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

// The mesh of one rank per stage.
Mesh OnePerStage(const Mesh& mesh) { return {.sizes = {.pipeline = mesh.sizes.pipeline}}; }

// Members of groups, kept once they are known: every message and collective asks for them.
class GroupMembers {
 public:
  explicit GroupMembers(const Mesh& mesh) : mesh_(mesh) {}

  const std::vector<int>& Of(Group group, int rank) const {
    const auto [found, first] = known_.try_emplace({group, rank});
    if (first) found->second = mesh_.Members(group, rank);
    return found->second;
  }
  // -1: the rank is no member.
  int IndexOf(Group group, int rank) const {
    const std::vector<int>& members = Of(group, rank);
    const auto found = std::find(members.begin(), members.end(), rank);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  // Whom a rank sends to or receives from.
  int Peer(int rank, const Communication& c) const {
    const std::vector<int>& members = Of(c.group, rank);
    const int size = static_cast<int>(members.size());
    return members[((IndexOf(c.group, rank) + c.peer_offset) % size + size) % size];
  }

 private:
  const Mesh& mesh_;
  mutable std::map<std::pair<Group, int>, std::vector<int>> known_;
};

class Machine {
 public:
  // `all`: the mesh that messages speak of; `walked`: it, or one rank per stage of it.
  Machine(const Mesh& all, const Mesh& walked, int steps, const ActionCost& cost)
      : all_(all), mesh_(walked), all_members_(all), members_(walked), steps_(steps), cost_(cost) {}

  void Load(std::vector<const Program*> programs, std::vector<ExpandedProgram> expanded) {
    programs_ = std::move(programs);
    result_.stages = std::move(expanded);
    states_.resize(mesh_.ranks());
    for (int r = 0; r < mesh_.ranks(); ++r) {
      const std::vector<Action>& list = result_.stages[mesh_.stage(r)].actions;
      result_.spans.emplace_back(list.size() * steps_);
      State& state = states_[r];
      state.stage = mesh_.stage(r);
      state.done.assign(list.size() * steps_, false);
      for (size_t a = 0; a < list.size(); ++a)
        state.queues[static_cast<int>(list[a].stream)].push_back(static_cast<int>(a));
    }
    for (int r = 0; r < all_.ranks(); ++r) {
      const int stage = all_.stage(r);
      const bool every = all_.ranks() == mesh_.ranks();
      result_.ranks.push_back(
          {&result_.stages[stage], programs_[stage], result_.spans[every ? r : stage]});
    }
    for (int r = 0; r < mesh_.ranks(); ++r) {
      int real = r;
      while (all_.ranks() != mesh_.ranks() && all_.stage(real) != r) ++real;
      real_.push_back(real);
    }
  }

  absl::StatusOr<MachineResult> Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < mesh_.ranks(); ++r) {
        for (int s = 0; s < kStreamCount; ++s) {
          ASSIGN_OR_RETURN(const bool some, Drain(r, s));
          moved |= some;
        }
      }
    }
    RETURN_IF_ERROR(CheckFinished());
    return std::move(result_);
  }

 private:
  struct State {
    int stage = 0;
    std::array<std::vector<int>, kStreamCount> queues;  // actions of one step
    std::array<size_t, kStreamCount> heads{};           // over all steps
    std::array<double, kStreamCount> free_at{};
    std::vector<bool> done;
    std::map<std::tuple<Group, Stream>, int>
        sequences;  // collectives completed per group and stream
  };

  const Program& program(int rank) const { return *programs_[states_[rank].stage]; }
  const ExpandedProgram& expanded(int rank) const { return result_.stages[states_[rank].stage]; }
  int actions(int rank) const { return static_cast<int>(expanded(rank).actions.size()); }
  const Action& action(int rank, int node) const {
    return expanded(rank).actions[node % actions(rank)];
  }

  double Cost(int rank, int node) const {
    return cost_({program(rank), action(rank, node), rank, node});
  }

  // The node at the head of a stream, or -1 when all steps are done.
  int Head(int rank, int stream) const {
    const State& state = states_[rank];
    const auto& queue = state.queues[stream];
    if (queue.empty() || state.heads[stream] >= queue.size() * steps_) return -1;
    const int step = static_cast<int>(state.heads[stream] / queue.size());
    return step * actions(rank) + queue[state.heads[stream] % queue.size()];
  }

  // When a node could begin; negative: something it waits for has not ended.
  double ReadyAt(int rank, int node) const {
    const State& state = states_[rank];
    const Action& what = action(rank, node);
    double ready = state.free_at[static_cast<int>(what.stream)];
    const int step = node / actions(rank);
    for (const ActionDependency& dependency : what.dependencies) {
      if (step < dependency.steps_back) continue;
      const int other = (step - dependency.steps_back) * actions(rank) + dependency.action;
      if (!state.done[other]) return -1;
      ready = std::max(ready, result_.spans[rank][other].end);
    }
    return ready;
  }

  void Finish(int rank, int node, double begin, double end) {
    State& state = states_[rank];
    const int stream = static_cast<int>(action(rank, node).stream);
    result_.spans[rank][node] = {begin, end};
    state.done[node] = true;
    state.free_at[stream] = end;
    ++state.heads[stream];
  }

  absl::StatusOr<bool> Drain(int rank, int stream) {
    bool moved = false;
    for (int node = Head(rank, stream); node >= 0; node = Head(rank, stream)) {
      const double ready = ReadyAt(rank, node);
      if (ready < 0) break;
      const Action& what = action(rank, node);
      if (!what.is_communication()) {
        Finish(rank, node, ready, ready + Cost(rank, node));
      } else {
        ASSIGN_OR_RETURN(const bool met, what.mechanism == Mechanism::kCollective
                                             ? TryCollective(rank, node)
                                             : TryMessage(rank, node));
        if (!met) break;
      }
      moved = true;
    }
    return moved;
  }

  std::string At(int rank, int node) const {
    return absl::StrCat("rank ", real_[rank], " at ",
                        expanded(rank).Describe(program(rank), node % actions(rank)));
  }

  const std::string& Label(int rank, int node) const {
    return program(rank).instructions[action(rank, node).instruction].label;
  }

  static std::string Text(const Communication& c) {
    return absl::StrCat(Name(c.op), " of ", c.bytes, " bytes ", Name(c.dtype),
                        c.op == CollectiveOp::kBroadcast ? absl::StrCat(" from ", c.root) : "");
  }

  // Members meet at the same place of the same stream: a collective of a group is the head of that
  // stream on all.
  absl::StatusOr<bool> TryCollective(int rank, int node) {
    const Action& own = action(rank, node);
    const Communication& mine = own.communication;
    RETURN_IF_ERROR(CheckMember(rank, node));
    const std::vector<int>& members = members_.Of(mine.group, rank);
    std::vector<int> nodes;
    double begin = 0;
    for (const int member : members) {
      const int head = Head(member, static_cast<int>(own.stream));
      const double ready = head < 0 ? -1 : ReadyAt(member, head);
      if (ready < 0) return false;
      const Action& other = action(member, head);
      if (other.mechanism != Mechanism::kCollective || other.communication.group != mine.group)
        return false;
      const Communication& theirs = other.communication;
      if (theirs.op != mine.op || theirs.bytes != mine.bytes || theirs.dtype != mine.dtype ||
          theirs.root != mine.root || Label(member, head) != Label(rank, node)) {
        return absl::FailedPreconditionError(
            absl::StrCat("group ", Name(mine.group), " of ranks {", MembersText(mine.group, rank),
                         "}, collective ", states_[rank].sequences[{mine.group, own.stream}], ": ",
                         At(rank, node), " has ", Text(mine), ", but ", At(member, head), " has ",
                         Text(theirs)));
      }
      nodes.push_back(head);
      begin = std::max(begin, ready);
    }
    const double end = begin + Cost(rank, node);
    for (size_t m = 0; m < members.size(); ++m) {
      ++states_[members[m]].sequences[{mine.group, own.stream}];
      Finish(members[m], nodes[m], begin, end);
    }
    return true;
  }

  absl::Status CheckMember(int rank, int node) const {
    const Group group = action(rank, node).communication.group;
    if (members_.IndexOf(group, rank) >= 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(At(rank, node), " communicates in group ",
                                                      Name(group), " {", MembersText(group, rank),
                                                      "}, of which it is no member"));
  }

  // The walked rank that stands for one of the whole mesh.
  int Stands(int real) const { return all_.ranks() == mesh_.ranks() ? real : all_.stage(real); }

  // A send and its receive meet when each is at the head of its stream.
  absl::StatusOr<bool> TryMessage(int rank, int node) {
    const Action& own = action(rank, node);
    RETURN_IF_ERROR(CheckMember(rank, node));
    const int real_peer = all_members_.Peer(real_[rank], own.communication);
    const int peer = Stands(real_peer);
    const Mechanism wanted =
        own.mechanism == Mechanism::kSend ? Mechanism::kReceive : Mechanism::kSend;
    for (int s = 0; s < kStreamCount; ++s) {
      const int head = Head(peer, s);
      if (head < 0) continue;
      const Action& other = action(peer, head);
      if (other.mechanism != wanted) continue;
      if (all_members_.Peer(real_peer, other.communication) != real_[rank]) continue;
      if (other.communication.channel != own.communication.channel) continue;
      const double theirs = ReadyAt(peer, head);
      if (theirs < 0) return false;
      if (other.communication.bytes != own.communication.bytes) {
        return absl::FailedPreconditionError(
            absl::StrCat(At(rank, node), " ", Name(own.mechanism), "s ", own.communication.bytes,
                         " bytes on channel ", own.communication.channel, ", but ", At(peer, head),
                         " ", Name(other.mechanism), "s ", other.communication.bytes));
      }
      const double begin = std::max(ReadyAt(rank, node), theirs);
      const double end = begin + Cost(rank, node);
      Finish(rank, node, begin, end);
      Finish(peer, head, begin, end);
      return true;
    }
    return false;
  }

  absl::Status CheckFinished() const {
    std::vector<std::string> stuck;
    for (int r = 0; r < mesh_.ranks(); ++r) {
      for (int s = 0; s < kStreamCount; ++s) {
        const int node = Head(r, s);
        if (node < 0) continue;
        const Action& what = action(r, node);
        if (!what.is_communication() || ReadyAt(r, node) < 0)
          continue;  // it waits for one of those
        const Communication& c = what.communication;
        const std::string whom =
            what.mechanism == Mechanism::kCollective
                ? absl::StrCat("in ", Name(c.op), " of group ", Name(c.group), " {",
                               MembersText(c.group, r), "}")
                : absl::StrCat("to ", Name(what.mechanism),
                               what.mechanism == Mechanism::kSend ? " to rank " : " from rank ",
                               all_members_.Peer(real_[r], c), " on channel ", c.channel);
        stuck.push_back(absl::StrCat(At(r, node), " waits ", whom));
      }
    }
    if (stuck.empty()) return AllDone();
    const size_t shown = std::min<size_t>(stuck.size(), 8);
    return absl::FailedPreconditionError(absl::StrCat(
        "deadlock: ", absl::StrJoin(stuck.begin(), stuck.begin() + shown, "; "),
        shown < stuck.size() ? absl::StrCat("; and ", stuck.size() - shown, " more") : ""));
  }

  absl::Status AllDone() const {
    for (int r = 0; r < mesh_.ranks(); ++r) {
      for (int s = 0; s < kStreamCount; ++s) {
        if (const int node = Head(r, s); node >= 0) {
          return absl::FailedPreconditionError(
              absl::StrCat("deadlock inside one rank: ", At(r, node),
                           " waits for itself through its dependencies"));
        }
      }
    }
    return absl::OkStatus();
  }

  std::string MembersText(Group group, int rank) const {
    return absl::StrJoin(all_members_.Of(group, real_[rank]), ", ");
  }

  const Mesh& all_;
  const Mesh& mesh_;
  const GroupMembers all_members_, members_;
  const int steps_;
  const ActionCost& cost_;
  MachineResult result_;
  std::vector<const Program*> programs_;
  std::vector<State> states_;  // per rank walked
  std::vector<int> real_;      // per rank walked: its number in the whole mesh
};

}  // namespace

absl::StatusOr<MachineResult> WalkExpanded(const std::vector<const ProgramSet*>& stages,
                                           const std::string& program,
                                           std::vector<ExpandedProgram> expanded, const Mesh& mesh,
                                           int steps, const ActionCost& cost, Walked walked) {
  if (static_cast<int>(stages.size()) != mesh.sizes.pipeline) {
    return absl::InvalidArgumentError(
        absl::StrCat(stages.size(), " stages for a pipeline of ", mesh.sizes.pipeline));
  }
  std::vector<const Program*> programs;
  for (const ProgramSet* stage : stages) {
    programs.push_back(stage->find(program));
    if (programs.back() == nullptr)
      return absl::NotFoundError(absl::StrCat("a stage has no program ", program));
    if (expanded.size() < programs.size()) expanded.push_back(Expand(*stage, *programs.back()));
  }
  const Mesh one = OnePerStage(mesh);
  Machine machine(mesh, walked == Walked::kEveryRank ? mesh : one, steps, cost);
  machine.Load(std::move(programs), std::move(expanded));
  return machine.Run();
}

absl::StatusOr<MachineResult> WalkPrograms(const std::vector<const ProgramSet*>& stages,
                                           const std::string& program, const Mesh& mesh, int steps,
                                           const ActionCost& cost, Walked walked) {
  return WalkExpanded(stages, program, {}, mesh, steps, cost, walked);
}

}  // namespace strata::program
