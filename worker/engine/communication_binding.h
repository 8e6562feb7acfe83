// From the program's communication to the communicator's operations.
#ifndef STRATA_WORKER_ENGINE_COMMUNICATION_BINDING_H_
#define STRATA_WORKER_ENGINE_COMMUNICATION_BINDING_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "program/passes/expand.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

// Scratch that a program's collective needs, for builders: `bytes` as in program::Communication.
int64_t CollectiveScratchBytes(program::CollectiveOp op, program::DType dtype, int64_t bytes,
                               int group_size);

// What this rank is in the symbolic groups, and their communicator groups.
class GroupTable {
 public:
  // `groups`: world ranks per group, empty for this rank alone. Makes a communicator group for each
  // group of more than one rank and each communication stream, so that the streams, which run ahead
  // of each other differently on every rank, do not disturb each other's order. Those of messages
  // are one for each direction, whichever end sends: each direction's come in an order of its own.
  // InvalidArgument: a group without this rank, or groups without a communicator.
  static absl::StatusOr<GroupTable> Create(const std::map<program::Group, std::vector<int>>& groups,
                                           collectives::Communicator* communicator);
  // The same of the rank `self`, by what makes groups; null: nothing does.
  using CreateGroup = std::function<absl::StatusOr<collectives::GroupId>(absl::Span<const int>)>;
  static absl::StatusOr<GroupTable> Create(const std::map<program::Group, std::vector<int>>& groups,
                                           int self, const CreateGroup& create);

  // 1 and 0 where the group is this rank alone.
  int size(program::Group group) const { return of(group).size; }
  int index(program::Group group) const { return of(group).index; }
  // Of the groups of more than one rank.
  std::map<program::Group, int> indices() const {
    std::map<program::Group, int> found;
    for (const auto& [group, member] : members_) found.emplace(group, member.index);
    return found;
  }
  collectives::GroupId id(program::Group group, program::Stream stream) const {
    return of(group).ids[static_cast<int>(stream)];
  }

 private:
  struct Membership {
    int size = 1;
    int index = 0;
    std::array<collectives::GroupId, program::kStreamCount> ids;
  };
  const Membership& of(program::Group group) const {
    static const Membership kAlone;
    const auto found = members_.find(group);
    return found == members_.end() ? kAlone : found->second;
  }
  std::map<program::Group, Membership> members_;  // those of more than one rank
};

// An operation for the communicator, or, in a group of one, what does the same here.
struct BoundCommunication {
  std::optional<collectives::Operation> operation;
  BoundOp local;
};

// Binds a collective, send or receive. InvalidArgument: operands that do not hold what is moved, a
// message to oneself; FailedPrecondition: the collective needs more scratch than it was given;
// Unimplemented: sums of a type that cannot be added, streams that do not communicate.
absl::StatusOr<BoundCommunication> BindCommunication(const program::Action& action,
                                                     absl::Span<const BoundOperand> operands,
                                                     const GroupTable& groups);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_COMMUNICATION_BINDING_H_
