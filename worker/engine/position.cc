#include "worker/engine/position.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

std::string Position::Describe() const {
  const int index = state_->active_program();
  std::string text;
  for (int s = 0; index >= 0 && s < program::kStreamCount; ++s) {
    if ((*bound_)[index].streams[s].empty() || state_->ended(s) >= state_->issued(s)) continue;
    if (!text.empty()) text += "; ";
    text += DescribeStream(s, index);
  }
  return text.empty() ? absl::StrCat("rank ", rank_, " is between steps") : text;
}

std::string Position::DescribeAction(int program, int action) const {
  return worker::Describe(*set_, set_->programs[program], (*bound_)[program], action);
}

std::string Position::DescribeStream(int stream, int index) const {
  const BoundProgram& program = (*bound_)[index];
  const std::vector<int32_t>& actions = program.streams[stream];
  const int64_t ended = state_->ended(stream), length = static_cast<int64_t>(actions.size());
  const int action = actions[ended % length];
  const std::string where = DescribeAction(index, action);
  if (state_->running(stream) >= 0) {
    const program::Communication* communication =
        CommunicationOf(*set_, set_->programs[index], program, action);
    return communication == nullptr ? absl::StrCat("rank ", rank_, " runs ", where)
                                    : absl::StrCat("rank ", rank_, " waits at ", where,
                                                   " in group ", Name(communication->group));
  }
  for (const BoundDependency& dependency : program.DependenciesOf(program.actions[action])) {
    if (HasEnded(dependency, index, ended / length)) continue;
    return absl::StrCat("rank ", rank_, " holds ", where, " back until ",
                        DescribeAction(index, static_cast<int>(dependency.action)), " has ended");
  }
  // A queue counts by instructions, and begins what nothing holds back.
  if (state_->is_queue(stream)) {
    return absl::StrCat("rank ", rank_, " runs ",
                        DescribeInstruction(set_->programs[index], program, action));
  }
  return absl::StrCat("rank ", rank_, " is about to begin ", where);
}

bool Position::HasEnded(const BoundDependency& dependency, int index, int64_t step) const {
  const BoundProgram& program = (*bound_)[index];
  const int stream = program.actions[dependency.action].stream;
  const int64_t length = static_cast<int64_t>(program.streams[stream].size());
  const int64_t place = program.Place(static_cast<int>(dependency.action));
  return state_->ended(stream) > (step - dependency.steps_back) * length + place;
}

}  // namespace strata::worker
