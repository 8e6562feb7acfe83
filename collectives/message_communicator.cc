#include "collectives/message_communicator.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/message_tag.h"
#include "collectives/pieces.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// Before Wait sleeps; a wakeup through the kernel costs about as much.
constexpr double kSpinSeconds = 20e-6;

int64_t NowNs() { return static_cast<int64_t>(common::MonotonicClock().Now() * 1e9); }

bool IsMisaligned(const void* address, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment != 0;
}

}  // namespace

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport, int max_operations)
    : connected_(transport->size()), slots_(max_operations), transport_(std::move(transport)) {
  active_.reserve(max_operations);
  connected_[rank()] = true;
}

MessageCommunicator::~MessageCommunicator() {
  if (!active_.empty()) Fail(absl::CancelledError("the communicator was destroyed"));
}

absl::StatusOr<GroupId> MessageCommunicator::CreateGroup(absl::Span<const int> world_ranks) {
  auto group = std::make_unique<Group>();
  group->ranks.assign(world_ranks.begin(), world_ranks.end());
  std::vector<int> sorted = group->ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto self = std::find(group->ranks.begin(), group->ranks.end(), rank());
  if (self == group->ranks.end() || sorted.front() < 0 || sorted.back() >= size() ||
      sorted.size() > static_cast<size_t>(kMaxGroupSize) ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat("a group of rank ", rank(), " in a world of ",
                                                   size(), " cannot be [",
                                                   absl::StrJoin(world_ranks, ", "), "]"));
  }
  group->index = static_cast<int>(self - group->ranks.begin());
  uint64_t hash = group->ranks.size();
  for (const int member : group->ranks) hash = common::MixBits(hash, member);
  for (const auto& other : groups_) group->occurrence += other->ranks == group->ranks;
  hash = common::MixBits(hash, group->occurrence);
  group->key = static_cast<uint32_t>(hash >> (64 - kGroupKeyBits));
  for (const auto& other : groups_) {
    // Keys may only coincide where no two members share both groups, for then no message can be
    // mistaken.
    if (other->key != group->key) continue;
    const int64_t shared = std::count_if(group->ranks.begin(), group->ranks.end(), [&](int member) {
      return std::find(other->ranks.begin(), other->ranks.end(), member) != other->ranks.end();
    });
    if (shared > 1) {
      return absl::InternalError(
          absl::StrCat("two groups of rank ", rank(), " have the same key ", group->key));
    }
  }
  group->sends.resize(group->ranks.size());
  group->receives.resize(group->ranks.size());
  for (const int member : group->ranks) {
    if (connected_[member]) continue;
    if (!transport_->Knows(member)) {
      if (group->unknown < 0) group->unknown = member;
      continue;
    }
    RETURN_IF_ERROR(transport_->Connect(member));
    connected_[member] = true;
  }
  leaves_.resize(std::max(leaves_.size(), group->ranks.size()));
  nodes_.resize(leaves_.size());
  groups_.push_back(std::move(group));
  return GroupId{static_cast<int32_t>(groups_.size() - 1)};
}

int MessageCommunicator::GroupSize(GroupId group) const { return groups_.at(group.value)->size(); }
int MessageCommunicator::GroupIndex(GroupId group) const { return groups_.at(group.value)->index; }

absl::Status MessageCommunicator::Check(const Operation& operation) const {
  if (operation.group.value < 0 || operation.group.value >= static_cast<int64_t>(groups_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("there is no group ", operation.group.value));
  }
  const Group& group = *groups_[operation.group.value];
  const bool has_peer = IsPointToPoint(operation.kind) || operation.kind == OpKind::kBroadcast;
  if (has_peer && (operation.peer < 0 || operation.peer >= group.size())) {
    return absl::InvalidArgumentError(absl::StrCat("there is no member ", operation.peer));
  }
  if (IsPointToPoint(operation.kind) &&
      (operation.peer == group.index || operation.tag >= kMaxTag)) {
    return absl::InvalidArgumentError("a message goes to another member, with a tag below 1024");
  }
  RETURN_IF_ERROR(CheckReach(operation, group));
  return CheckAmounts(operation, group);
}

absl::Status MessageCommunicator::CheckReach(const Operation& operation, const Group& group) const {
  const bool point_to_point = IsPointToPoint(operation.kind);
  const int other = point_to_point ? group.ranks[operation.peer] : group.unknown;
  if (other < 0 || connected_[other]) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", rank(), " was not given the address of rank ", other, ", with which it is to ",
      "exchange data: it did not name that rank among its peers before the start"));
}

absl::Status MessageCommunicator::CheckAmounts(const Operation& operation,
                                               const Group& group) const {
  const int64_t element = ElementBytes(operation.type);
  const bool sums =
      operation.kind == OpKind::kReduceScatter || operation.kind == OpKind::kAllReduce;
  if (element == 0 || operation.count < 0 || operation.count > (int64_t{1} << 50) / group.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation.count, " elements of ", element, " bytes"));
  }
  if (sums && operation.type == DataType::kBytes)
    return absl::InvalidArgumentError("bytes cannot be summed");
  const bool reads = operation.kind != OpKind::kBroadcast && operation.kind != OpKind::kReceive;
  const bool writes = operation.kind != OpKind::kSend;
  if (operation.kind != OpKind::kBarrier && operation.count > 0 &&
      ((reads && operation.in == nullptr) || (writes && operation.out == nullptr))) {
    return absl::InvalidArgumentError("a buffer is missing");
  }
  if ((operation.kind == OpKind::kAllToAll || operation.kind == OpKind::kRotate) &&
      operation.count > 0 && operation.in == operation.out) {
    return absl::InvalidArgumentError("it is not done in place");
  }
  if (IsMisaligned(operation.in, element) || IsMisaligned(operation.out, element)) {
    return absl::InvalidArgumentError("a buffer is not aligned to its elements");
  }
  const int64_t scratch =
      ScratchBytes(operation.kind, operation.type, operation.count, group.size());
  if (operation.scratch_bytes < scratch || (scratch > 0 && operation.scratch == nullptr) ||
      (scratch > 0 && IsMisaligned(operation.scratch, kScratchAlignment))) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs ", scratch, " bytes of scratch aligned to ", kScratchAlignment,
                     ", not ", operation.scratch_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<OperationId> MessageCommunicator::Post(const Operation& operation) {
  if (FailIfCancelled()) return failure_;
  if (absl::Status status = Check(operation); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(OpName(operation.kind), ": ", status.message()));
  }
  const auto free = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& slot) { return slot.state == SlotState::kFree; });
  if (free == slots_.end()) {
    return absl::ResourceExhaustedError(absl::StrCat(slots_.size(), " operations are in flight"));
  }
  Slot& slot = *free;
  slot.state = SlotState::kActive;
  ++slot.generation;
  slot.operation = operation;
  slot.group = groups_[operation.group.value].get();
  slot.sequence = operation.kind == OpKind::kSend      ? slot.group->sends[operation.peer]++
                  : operation.kind == OpKind::kReceive ? slot.group->receives[operation.peer]++
                                                       : slot.group->sequence++;
  slot.stage = Stage::kExchange;
  slot.position = slot.send_round = slot.receive_round = 0;
  slot.in_flight = slot.receives_in_flight = 0;
  slot.stays.fill(false);
  active_.push_back(static_cast<uint32_t>(free - slots_.begin()));
  Record(slot);
  const OperationId id{active_.back(), slot.generation};
  int64_t no_budget = 0;  // posting starts messages; copying and adding are for Progress
  Advance(slot, &no_budget);
  if (!failure_.ok()) return failure_;
  return id;
}

void MessageCommunicator::Record(Slot& slot) {
  if (ring_ == nullptr) return;
  const Operation& op = slot.operation;
  const bool has_peer = IsPointToPoint(op.kind) || op.kind == OpKind::kBroadcast;
  slot.ring_number = ring_->Begin({.number = 0,
                                   .sequence = slot.sequence,
                                   .group = op.group.value,
                                   .op = static_cast<uint32_t>(op.kind),
                                   .peer = has_peer ? slot.group->ranks[op.peer] : -1,
                                   .state = static_cast<uint32_t>(OperationState::kPosted),
                                   .bytes = op.count * ElementBytes(op.type),
                                   .begin_ns = NowNs(),
                                   .end_ns = 0});
}

absl::StatusOr<bool> MessageCommunicator::Test(OperationId id) {
  if (id.slot >= slots_.size() || slots_[id.slot].generation != id.generation ||
      slots_[id.slot].state == SlotState::kFree) {
    return absl::FailedPreconditionError("no such operation: it was already tested as done");
  }
  Slot& slot = slots_[id.slot];
  if (slot.state == SlotState::kActive) return false;
  const bool failed = slot.state == SlotState::kFailed;
  slot.state = SlotState::kFree;
  if (failed) return failure_;
  return true;
}

void MessageCommunicator::Wait(absl::Duration timeout) {
  const common::MonotonicClock clock{};
  const double end = clock.Now() + kSpinSeconds;
  while (clock.Now() < end) {
    if (cancelled_.load(std::memory_order_acquire) && failure_.ok()) return;
    if (transport_->Poll()) return;
    std::this_thread::yield();  // to ranks that share this core
  }
  if (failure_.ok()) CheckStrays();
  if (finished_something_) return;
  transport_->Wait(timeout);
}

void MessageCommunicator::Cancel(absl::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancellation_.ok()) return;
    STRATA_CHECK(!status.ok());
    cancellation_ = std::move(status);
  }
  cancelled_.store(true, std::memory_order_release);
  transport_->Wake();
}

bool MessageCommunicator::FailIfCancelled() {
  if (failure_.ok() && cancelled_.load(std::memory_order_acquire)) {
    absl::Status status;
    {
      const std::lock_guard lock(mutex_);
      status = cancellation_;
    }
    Fail(status);
  }
  return !failure_.ok();
}

void MessageCommunicator::Fail(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  transport_->Abort();
  while (!active_.empty()) Finish(slots_[active_.back()], SlotState::kFailed);
  for (Slot& slot : slots_) {
    for (Transfer& transfer : slot.sends) transfer.owner = nullptr;
    for (Transfer& transfer : slot.receives) transfer.owner = nullptr;
  }
}

void MessageCommunicator::Finish(Slot& slot, SlotState state) {
  slot.state = state;
  finished_something_ = true;
  const auto index = static_cast<uint32_t>(&slot - slots_.data());
  active_.erase(std::find(active_.begin(), active_.end(), index));
  if (ring_ != nullptr && slot.ring_number != 0) {
    const bool done = state == SlotState::kDone;
    ring_->End(slot.ring_number, done ? OperationState::kDone : OperationState::kFailed, NowNs());
  }
}

// A message of a collective in flight here that none of its receives is for: its sender is at
// another operation.
void MessageCommunicator::CheckStrays() {
  for (const uint32_t index : active_) {
    const Slot& slot = slots_[index];
    uint64_t found = 0;
    const uint64_t expected = TagOf(slot, 0);
    if (IsPointToPoint(slot.operation.kind) ||
        !transport_->Probe(expected, kCollectiveBits, &found) ||
        (found & kCheckedBits) == (expected & kCheckedBits)) {
      continue;
    }
    const int source = SourceOf(found);
    const std::string from =
        source < slot.group->size() ? absl::StrCat(slot.group->ranks[source]) : "?";
    Fail(absl::FailedPreconditionError(
        absl::StrCat(Describe(slot), ": ranks ", rank(), " and ", from, " disagree: rank ", from,
                     " is at ", OpName(KindOf(found)), ", or has another type, root or size")));
    return;
  }
}

// "all-reduce 17 of group 2 (world ranks 0, 1, 2, 3), 4096 elements of 4 bytes"
std::string MessageCommunicator::Describe(const Slot& slot) const {
  constexpr size_t kMostRanks = 16;
  const auto ranks = absl::MakeConstSpan(slot.group->ranks);
  const Operation& op = slot.operation;
  return absl::StrCat(OpName(op.kind), " ", slot.sequence, " of group ", op.group.value,
                      " (world ranks ",
                      absl::StrJoin(ranks.first(std::min(ranks.size(), kMostRanks)), ", "),
                      ranks.size() > kMostRanks ? ", …" : "", "), ", op.count, " elements of ",
                      ElementBytes(op.type), " bytes");
}

}  // namespace strata::collectives
