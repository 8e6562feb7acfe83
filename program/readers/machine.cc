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

class Machine {
 public:
  Machine(const Mesh& mesh, int steps, const ActionCost& cost)
      : mesh_(mesh), steps_(steps), cost_(cost) {}

  absl::Status Load(const std::vector<const ProgramSet*>& stages, const std::string& name) {
    for (const ProgramSet* stage : stages) {
      const Program* program = stage->find(name);
      if (program == nullptr)
        return absl::NotFoundError(absl::StrCat("a stage has no program ", name));
      result_.stages.push_back(Expand(*stage, *program));
      programs_.push_back(program);
    }
    result_.ranks.resize(mesh_.ranks());
    states_.resize(mesh_.ranks());
    for (int r = 0; r < mesh_.ranks(); ++r) {
      const int stage = mesh_.stage(r);
      const size_t actions = result_.stages[stage].actions.size();
      result_.ranks[r] = {&result_.stages[stage], programs_[stage],
                          std::vector<Span>(actions * steps_)};
      State& state = states_[r];
      state.done.assign(actions * steps_, false);
      for (size_t a = 0; a < actions; ++a) {
        state.queues[static_cast<int>(result_.stages[stage].actions[a].stream)].push_back(
            static_cast<int>(a));
      }
    }
    return absl::OkStatus();
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
    std::array<std::vector<int>, kStreamCount> queues;  // actions of one step
    std::array<size_t, kStreamCount> heads{};           // over all steps
    std::array<double, kStreamCount> free_at{};
    std::vector<bool> done;
    std::map<std::tuple<Group, Stream>, int>
        sequences;  // collectives completed per group and stream
  };

  int actions(int rank) const {
    return static_cast<int>(result_.ranks[rank].expanded->actions.size());
  }
  const Action& action(int rank, int node) const {
    return result_.ranks[rank].expanded->actions[node % actions(rank)];
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
      ready = std::max(ready, result_.ranks[rank].spans[other].end);
    }
    return ready;
  }

  void Finish(int rank, int node, double begin, double end) {
    State& state = states_[rank];
    const int stream = static_cast<int>(action(rank, node).stream);
    result_.ranks[rank].spans[node] = {begin, end};
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
        Finish(rank, node, ready, ready + cost_(*result_.ranks[rank].program, what));
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
    const RankTimes& times = result_.ranks[rank];
    return absl::StrCat("rank ", rank, " at ",
                        times.expanded->Describe(*times.program, node % actions(rank)));
  }

  const std::string& Label(int rank, int node) const {
    return result_.ranks[rank].program->instructions[action(rank, node).instruction].label;
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
    const std::vector<int> members = mesh_.Members(mine.group, rank);
    RETURN_IF_ERROR(CheckMember(rank, node));
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
            absl::StrCat("group ", Name(mine.group), " of ranks {", absl::StrJoin(members, ", "),
                         "}, collective ", states_[rank].sequences[{mine.group, own.stream}], ": ",
                         At(rank, node), " has ", Text(mine), ", but ", At(member, head), " has ",
                         Text(theirs)));
      }
      nodes.push_back(head);
      begin = std::max(begin, ready);
    }
    const double end = begin + cost_(*result_.ranks[rank].program, own);
    for (size_t m = 0; m < members.size(); ++m) {
      ++states_[members[m]].sequences[{mine.group, own.stream}];
      Finish(members[m], nodes[m], begin, end);
    }
    return true;
  }

  absl::Status CheckMember(int rank, int node) const {
    const Group group = action(rank, node).communication.group;
    if (mesh_.IndexIn(group, rank) >= 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        At(rank, node), " communicates in group ", Name(group), " {",
        absl::StrJoin(mesh_.Members(group, rank), ", "), "}, of which it is no member"));
  }

  int Peer(int rank, const Communication& c) const {
    const std::vector<int> members = mesh_.Members(c.group, rank);
    const int size = static_cast<int>(members.size());
    return members[((mesh_.IndexIn(c.group, rank) + c.peer_offset) % size + size) % size];
  }

  // A send and its receive meet when each is at the head of its stream.
  absl::StatusOr<bool> TryMessage(int rank, int node) {
    const Action& own = action(rank, node);
    RETURN_IF_ERROR(CheckMember(rank, node));
    const int peer = Peer(rank, own.communication);
    const Mechanism wanted =
        own.mechanism == Mechanism::kSend ? Mechanism::kReceive : Mechanism::kSend;
    for (int s = 0; s < kStreamCount; ++s) {
      const int head = Head(peer, s);
      if (head < 0) continue;
      const Action& other = action(peer, head);
      if (other.mechanism != wanted || Peer(peer, other.communication) != rank) continue;
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
      const double end = begin + cost_(*result_.ranks[rank].program, own);
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
                               absl::StrJoin(mesh_.Members(c.group, r), ", "), "}")
                : absl::StrCat("to ", Name(what.mechanism),
                               what.mechanism == Mechanism::kSend ? " to rank " : " from rank ",
                               Peer(r, c), " on channel ", c.channel);
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

  const Mesh& mesh_;
  const int steps_;
  const ActionCost& cost_;
  MachineResult result_;
  std::vector<const Program*> programs_;
  std::vector<State> states_;
};

}  // namespace

absl::StatusOr<MachineResult> Walk(const std::vector<const ProgramSet*>& stages,
                                   const std::string& program, const Mesh& mesh, int steps,
                                   const ActionCost& cost) {
  if (static_cast<int>(stages.size()) != mesh.sizes.pipeline) {
    return absl::InvalidArgumentError(
        absl::StrCat(stages.size(), " stages for a pipeline of ", mesh.sizes.pipeline));
  }
  Machine machine(mesh, steps, cost);
  RETURN_IF_ERROR(machine.Load(stages, program));
  return machine.Run();
}

}  // namespace strata::program
