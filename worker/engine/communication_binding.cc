#include "worker/engine/communication_binding.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

using program::CollectiveOp;
using program::Communication;
using program::DType;
using program::Group;
using program::Mechanism;
using program::Stream;

constexpr Stream kCommunicationStreams[] = {Stream::kParameters, Stream::kGradients,
                                            Stream::kTensor, Stream::kSend, Stream::kReceive};

collectives::OpKind KindOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllGather:
      return collectives::OpKind::kAllGather;
    case CollectiveOp::kReduceScatter:
      return collectives::OpKind::kReduceScatter;
    case CollectiveOp::kAllReduce:
      return collectives::OpKind::kAllReduce;
    case CollectiveOp::kBroadcast:
      return collectives::OpKind::kBroadcast;
    case CollectiveOp::kBarrier:
      return collectives::OpKind::kBarrier;
    case CollectiveOp::kAllToAll:
      return collectives::OpKind::kAllToAll;
    case CollectiveOp::kRotate:
      return collectives::OpKind::kRotate;
  }
  return collectives::OpKind::kBarrier;
}

// What is only moved, moves as bytes.
collectives::DataType TypeOf(CollectiveOp op, DType dtype) {
  if (op != CollectiveOp::kReduceScatter && op != CollectiveOp::kAllReduce) {
    return collectives::DataType::kBytes;
  }
  if (dtype == DType::kF32) return collectives::DataType::kF32;
  if (dtype == DType::kF64) return collectives::DataType::kF64;
  if (dtype == DType::kBF16) return collectives::DataType::kBF16;
  if (dtype == DType::kF16) return collectives::DataType::kF16;
  return collectives::DataType::kBytes;  // refused where it is bound
}

bool Sums(CollectiveOp op) {
  return op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllReduce;
}

absl::Status ExpectRoom(absl::Span<const BoundOperand> operands, size_t index, int64_t bytes) {
  if (index < operands.size() && operands[index].bytes >= bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("operand ", index, " has ", index < operands.size() ? operands[index].bytes : 0,
                   " bytes, ", bytes, " are moved"));
}

// In a group of one every collective is a copy, or nothing.
BoundCommunication InGroupOfOne(CollectiveOp op, absl::Span<const BoundOperand> operands,
                                int64_t bytes) {
  if (op == CollectiveOp::kBarrier || operands.size() < 2 || operands[0].data == operands[1].data) {
    return {.operation = std::nullopt, .local = [] { return absl::OkStatus(); }};
  }
  return {.operation = std::nullopt,
          .local = [from = operands[0].data, to = operands[1].data, bytes] {
            std::memcpy(to, from, bytes);
            return absl::OkStatus();
          }};
}

absl::StatusOr<BoundCommunication> BindCollective(const Communication& what,
                                                  absl::Span<const BoundOperand> operands,
                                                  const GroupTable& groups, Stream stream) {
  const int size = groups.size(what.group);
  const bool broadcast = what.op == CollectiveOp::kBroadcast;
  if (what.op != CollectiveOp::kBarrier) {
    const bool all_to_all = what.op == CollectiveOp::kAllToAll;
    const bool scatters = what.op == CollectiveOp::kReduceScatter || all_to_all;
    const bool gathers = what.op == CollectiveOp::kAllGather || all_to_all;
    RETURN_IF_ERROR(ExpectRoom(operands, 0, scatters ? what.bytes * size : what.bytes));
    if (!broadcast || operands.size() > 1) {
      RETURN_IF_ERROR(ExpectRoom(operands, 1, gathers ? what.bytes * size : what.bytes));
    }
  }
  const collectives::DataType type = TypeOf(what.op, what.dtype);
  if (Sums(what.op) && type == collectives::DataType::kBytes) {
    return absl::UnimplementedError(absl::StrCat("sums of type ", Name(what.dtype)));
  }
  if (size == 1) return InGroupOfOne(what.op, operands, what.bytes);
  collectives::Operation operation{.kind = KindOf(what.op),
                                   .group = groups.id(what.group, stream),
                                   .type = type,
                                   .count = what.bytes / collectives::ElementBytes(type)};
  if (!operands.empty()) {
    operation.in = operands.front().data;
    operation.out = operands[operands.size() > 1 ? 1 : 0].data;
  }
  if (broadcast) {
    operation.peer = what.root;
    if (operation.in != operation.out) {
      return absl::UnimplementedError("a broadcast from one place to another");
    }
    operation.in = nullptr;
  }
  const int64_t needed = collectives::ScratchBytes(operation.kind, type, operation.count, size);
  if (operands.size() > 2) {
    operation.scratch = operands[2].data;
    operation.scratch_bytes = operands[2].bytes;
  }
  if (needed > operation.scratch_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", Name(what.op), " needs ", needed, " bytes of scratch in a group of ",
                     size, ", the program gives it ", operation.scratch_bytes));
  }
  return BoundCommunication{.operation = operation, .local = {}};
}

absl::StatusOr<BoundCommunication> BindMessage(const program::Action& action,
                                               absl::Span<const BoundOperand> operands,
                                               const GroupTable& groups) {
  const Communication& what = action.communication;
  const int size = groups.size(what.group), index = groups.index(what.group);
  const int peer = ((index + what.peer_offset) % size + size) % size;
  RETURN_IF_ERROR(ExpectRoom(operands, 0, what.bytes));
  if (peer == index) return absl::InvalidArgumentError("a message of a rank to itself");
  if (what.channel < 0 || what.channel >= static_cast<int>(collectives::kMaxTag)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no channel ", what.channel));
  }
  const bool sends = action.mechanism == Mechanism::kSend;
  // Both ends of a message are of one direction.
  const bool ahead = (what.peer_offset > 0) == sends;
  return BoundCommunication{
      .operation =
          collectives::Operation{
              .kind = sends ? collectives::OpKind::kSend : collectives::OpKind::kReceive,
              .group = groups.id(what.group, ahead ? Stream::kSend : Stream::kReceive),
              .type = collectives::DataType::kBytes,
              .count = what.bytes,
              .in = sends ? operands[0].data : nullptr,
              .out = sends ? nullptr : operands[0].data,
              .peer = peer,
              .tag = static_cast<uint32_t>(what.channel)},
      .local = {}};
}

}  // namespace

int64_t CollectiveScratchBytes(CollectiveOp op, DType dtype, int64_t bytes, int group_size) {
  const collectives::DataType type = TypeOf(op, dtype);
  return collectives::ScratchBytes(KindOf(op), type, bytes / collectives::ElementBytes(type),
                                   group_size);
}

absl::StatusOr<GroupTable> GroupTable::Create(
    const std::map<program::Group, std::vector<int>>& groups,
    collectives::Communicator* communicator) {
  if (communicator == nullptr) return Create(groups, 0, nullptr);
  return Create(groups, communicator->rank(), [communicator](absl::Span<const int> ranks) {
    return communicator->CreateGroup(ranks);
  });
}

absl::StatusOr<GroupTable> GroupTable::Create(
    const std::map<program::Group, std::vector<int>>& groups, int self, const CreateGroup& create) {
  GroupTable table;
  for (const auto& [group, ranks] : groups) {
    const auto own = std::find(ranks.begin(), ranks.end(), self);
    const std::string name = Name(group);
    if (!ranks.empty() && own == ranks.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", self, " is not in its own group ", name));
    }
    if (ranks.size() <= 1) continue;
    if (create == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("group ", name, " of ", ranks.size(), " ranks without a communicator"));
    }
    Membership& member = table.members_[group];
    member.size = static_cast<int>(ranks.size());
    member.index = static_cast<int>(own - ranks.begin());
    for (const Stream stream : kCommunicationStreams) {
      ASSIGN_OR_RETURN(member.ids[static_cast<int>(stream)], create(ranks));
    }
  }
  return table;
}

absl::StatusOr<BoundCommunication> BindCommunication(const program::Action& action,
                                                     absl::Span<const BoundOperand> operands,
                                                     const GroupTable& groups) {
  const Communication& what = action.communication;
  if (what.group == Group::kNone) return absl::InvalidArgumentError("communication in no group");
  if (what.bytes < 0) return absl::InvalidArgumentError("negative bytes are moved");
  if (std::find(std::begin(kCommunicationStreams), std::end(kCommunicationStreams),
                action.stream) == std::end(kCommunicationStreams)) {
    return absl::UnimplementedError(
        absl::StrCat("communication on the stream ", Name(action.stream)));
  }
  if (action.mechanism == Mechanism::kCollective) {
    return BindCollective(what, operands, groups, action.stream);
  }
  return BindMessage(action, operands, groups);
}

}  // namespace strata::worker
