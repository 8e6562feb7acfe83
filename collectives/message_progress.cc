// How operations move along: rounds of messages, copies and sums.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "collectives/message_communicator.h"
#include "collectives/message_tag.h"
#include "collectives/pieces.h"
#include "collectives/tree_sum.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// Copying and adding in one Progress: about a tenth of a millisecond, so that messages keep
// flowing.
constexpr int64_t kBudgetBytes = 512 * common::kKiB;
// What is fetched of a piece before it is added: so much stays in the second-level cache.
constexpr int64_t kFetchBytes = 128 * common::kKiB;

}  // namespace

uint64_t MessageCommunicator::TagOf(const Slot& slot, int source) const {
  const Operation& op = slot.operation;
  const bool point_to_point = IsPointToPoint(op.kind);
  const uint64_t root = op.kind == OpKind::kBroadcast ? op.peer : 0;
  const uint64_t size = point_to_point ? 0 : op.count;  // lengths tell it for single messages
  const uint64_t hash = common::MixBits(size, root << 8 | static_cast<uint64_t>(op.type));
  return MessageTag{.point_to_point = point_to_point,
                    .group_key = slot.group->key,
                    .source = source,
                    .sequence_or_tag = point_to_point ? op.tag : slot.sequence,
                    .phase = slot.stage == Stage::kGather,
                    .kind = point_to_point ? OpKind::kSend : op.kind,
                    .hash = static_cast<uint8_t>(hash >> 56)}
      .Pack();
}

bool MessageCommunicator::Progress() {
  transport_->Poll();
  if (FailIfCancelled()) {
    const bool news = finished_something_;
    finished_something_ = false;
    return news;
  }
  int64_t budget = kBudgetBytes;
  bool more = false;
  for (size_t i = 0; i < active_.size() && failure_.ok();) {
    Slot& slot = slots_[active_[i]];
    more |= Advance(slot, &budget);
    // A finished operation has left the list, and the next one has its place.
    if (slot.state == SlotState::kActive) ++i;
  }
  const bool news = finished_something_;
  finished_something_ = false;
  return news || more;
}

// Goes as far as messages and budget allow; true when budget is what stopped it.
bool MessageCommunicator::Advance(Slot& slot, int64_t* budget) {
  while (slot.state == SlotState::kActive) {
    bool stage_done = false;
    switch (slot.stage) {
      case Stage::kCopyOwn:
        stage_done = Copy(slot, budget);
        if (!stage_done) return true;
        break;
      case Stage::kExchange:
      case Stage::kGather:
        stage_done = Exchange(slot);
        if (!stage_done) return false;
        break;
      case Stage::kAdd:
        stage_done = Add(slot, budget);
        if (!stage_done) return true;
        break;
      case Stage::kSent:
        stage_done = Collect(slot) && slot.in_flight == 0;
        if (!stage_done) return false;
        break;
      case Stage::kFinished:
        Finish(slot, SlotState::kDone);
        return false;
    }
    NextStage(slot);
  }
  return false;
}

void MessageCommunicator::NextStage(Slot& slot) {
  const OpKind kind = slot.operation.kind;
  const bool sums = kind == OpKind::kReduceScatter || kind == OpKind::kAllReduce;
  if (slot.stage == Stage::kExchange &&
      (kind == OpKind::kAllGather || kind == OpKind::kAllToAll || kind == OpKind::kRotate)) {
    slot.stage = Stage::kCopyOwn;
  } else if (slot.stage == Stage::kExchange && sums) {
    slot.stage = Stage::kAdd;
  } else if (slot.stage == Stage::kAdd) {
    slot.stage = Stage::kSent;
  } else if (slot.stage == Stage::kSent && kind == OpKind::kAllReduce && !SendsWhole(slot)) {
    slot.stage = Stage::kGather;
  } else {
    slot.stage = Stage::kFinished;
  }
  slot.position = slot.send_round = slot.receive_round = 0;
}

// Posts what the window has room for and takes what has finished; true when all rounds are over.
bool MessageCommunicator::Exchange(Slot& slot) {
  const int sends = Rounds(slot, true);
  const int receives = Rounds(slot, false);
  const bool ordered = RoundsAreOrdered(slot);
  for (;;) {
    if (!Collect(slot)) return false;
    bool posted = false;
    // A broadcast's messages out wait for the one in; a barrier's rounds for the round before.
    if (slot.receive_round < receives && (!ordered || slot.in_flight == 0)) {
      const auto free = std::find_if(slot.receives.begin(), slot.receives.end(),
                                     [](const Transfer& t) { return t.owner == nullptr; });
      if (free != slot.receives.end()) {
        PostReceive(slot, *free, ReceiveOf(slot, slot.receive_round++));
        posted = true;
      }
    }
    const bool waits = (slot.operation.kind == OpKind::kBroadcast && receives > 0 &&
                        slot.in_flight > 0 && slot.send_round == 0) ||
                       (ordered && slot.send_round >= slot.receive_round);
    if (slot.send_round < sends && !waits) {
      const auto free = std::find_if(slot.sends.begin(), slot.sends.end(),
                                     [](const Transfer& t) { return t.owner == nullptr; });
      if (free != slot.sends.end()) {
        const Message message = SendOf(slot, slot.send_round++);
        if (message.peer >= 0) PostSend(slot, *free, message);
        posted = true;
      }
    }
    if (!posted) break;
  }
  const bool adds_next = slot.stage == Stage::kExchange && AddsFromPeers(slot);
  return slot.send_round == sends && slot.receive_round == receives &&
         (adds_next ? slot.receives_in_flight : slot.in_flight) == 0;
}

// Frees finished transfers; false when one of them failed, and with it everything.
bool MessageCommunicator::Collect(Slot& slot) {
  if (slot.in_flight == 0) return true;
  for (auto* transfers : {&slot.sends, &slot.receives}) {
    for (int i = 0; i < kWindow; ++i) {
      Transfer& transfer = (*transfers)[i];
      if (transfer.owner == nullptr || transfer.pending.load(std::memory_order_acquire)) continue;
      const bool receives = transfers == &slot.receives;
      if (receives && slot.stays[i]) continue;
      slot.stays[i] |= receives && transfer.stays;
      if (!receives || !transfer.stays) transfer.owner = nullptr;
      --slot.in_flight;
      slot.receives_in_flight -= receives;
      absl::Status status = transfer.status;
      if (!status.ok()) {
        status = absl::Status(status.code(), absl::StrCat(Describe(slot), ": ", status.message()));
      } else if (receives) {
        status = CheckArrival(slot, transfer);
      }
      if (!status.ok()) {
        Fail(status);
        return false;
      }
    }
  }
  return true;
}

void MessageCommunicator::PostSend(Slot& slot, Transfer& transfer, const Message& message) {
  transfer.peer = slot.group->ranks[message.peer];
  transfer.tag = TagOf(slot, slot.group->index);
  transfer.from = message.from;
  transfer.bytes = message.bytes;
  transfer.owner = &slot;
  transfer.status = absl::OkStatus();
  transfer.pending.store(true, std::memory_order_relaxed);
  ++slot.in_flight;
  transport_->Send(&transfer);
}

void MessageCommunicator::PostReceive(Slot& slot, Transfer& transfer, const Message& message) {
  transfer.peer = slot.group->ranks[message.peer];
  transfer.tag = TagOf(slot, message.peer);
  transfer.to = message.to;
  transfer.bytes = message.bytes;
  transfer.too_long = transfer.stays = false;
  transfer.may_stay = slot.stage == Stage::kExchange && AddsFromPeers(slot);
  transfer.owner = &slot;
  transfer.status = absl::OkStatus();
  transfer.pending.store(true, std::memory_order_relaxed);
  ++slot.in_flight;
  ++slot.receives_in_flight;
  transport_->Receive(&transfer, kMatchedBits);
}

bool MessageCommunicator::Copy(Slot& slot, int64_t* budget) {
  const Operation& op = slot.operation;
  if (op.kind == OpKind::kRotate && slot.group->size() > 1) return true;  // nothing stays
  const int64_t bytes = op.count * ElementBytes(op.type);
  const int64_t part = op.kind == OpKind::kRotate ? 0 : slot.group->index * bytes;
  auto* own = static_cast<std::byte*>(op.out) + part;
  const auto* from =
      static_cast<const std::byte*>(op.in) + (op.kind == OpKind::kAllToAll ? part : 0);
  if (own == from || bytes == 0) return true;
  const int64_t step = std::min(std::max<int64_t>(*budget, 0), bytes - slot.position);
  std::memcpy(own + slot.position, from + slot.position, step);
  slot.position += step;
  *budget -= step;
  return slot.position == bytes;
}

int64_t MessageCommunicator::ElementsToAdd(const Slot& slot) const {
  const Operation& op = slot.operation;
  if (op.kind == OpKind::kReduceScatter || SendsWhole(slot)) return op.count;
  const int n = slot.group->size();
  return PieceAt(PieceCount(op.type, op.count, n), op.count, slot.group->index).count;
}

bool MessageCommunicator::Add(Slot& slot, int64_t* budget) {
  const int64_t element = ElementBytes(slot.operation.type);
  const int64_t total = ElementsToAdd(slot);
  if (slot.position == total) return true;
  const int64_t cost = element * slot.group->size();  // bytes read for one element of the sum
  const int64_t end =
      std::min(total, slot.position + common::CeilDivide(std::max<int64_t>(*budget, 0), cost));
  *budget -= (end - slot.position) * cost;
  while (slot.position < end) {
    const int64_t next = std::min(end, slot.position + kFetchBytes / element);
    if (const absl::Status status = FetchPieces(slot, slot.position, next); !status.ok()) {
      Fail(absl::Status(status.code(), absl::StrCat(Describe(slot), ": ", status.message())));
      return false;
    }
    AddRange(slot, slot.position, next);
    slot.position = next;
  }
  if (end < total) return false;
  if (const absl::Status status = ReleasePieces(slot); !status.ok()) {
    Fail(absl::Status(status.code(), absl::StrCat(Describe(slot), ": ", status.message())));
    return false;
  }
  return true;
}

// Of messages that stayed with their senders, these elements, to the beginning of their scratch, so
// that it stays in the cache.
absl::Status MessageCommunicator::FetchPieces(Slot& slot, int64_t begin, int64_t end) {
  const int64_t element = ElementBytes(slot.operation.type);
  for (int i = 0; i < kWindow; ++i) {
    const Transfer& receive = slot.receives[i];
    if (!slot.stays[i]) continue;
    RETURN_IF_ERROR(
        transport_->Read(receive, begin * element, receive.to, (end - begin) * element));
  }
  return absl::OkStatus();
}

absl::Status MessageCommunicator::ReleasePieces(Slot& slot) {
  for (int i = 0; i < kWindow; ++i) {
    if (!slot.stays[i]) continue;
    RETURN_IF_ERROR(transport_->Release(slot.receives[i]));
    slot.receives[i].owner = nullptr;
    slot.stays[i] = false;
  }
  return absl::OkStatus();
}

// Whether this scratch is that of a message fetched in parts.
bool MessageCommunicator::IsFetched(const Slot& slot, const void* scratch) {
  for (int i = 0; i < kWindow; ++i) {
    if (slot.stays[i] && slot.receives[i].to == scratch) return true;
  }
  return false;
}

void MessageCommunicator::AddRange(Slot& slot, int64_t begin, int64_t end) {
  switch (slot.operation.type) {
    case DataType::kF32:
      return AddRangeOf<float>(slot, begin, end);
    case DataType::kF64:
      return AddRangeOf<double>(slot, begin, end);
    case DataType::kBF16:
      return AddRangeOf<kernels::BFloat16>(slot, begin, end);
    case DataType::kF16:
      return AddRangeOf<kernels::Float16>(slot, begin, end);
    case DataType::kBytes:  // refused by Post
      return;
  }
}

template <typename T>
void MessageCommunicator::AddRangeOf(Slot& slot, int64_t begin, int64_t end) {
  const Operation& op = slot.operation;
  const int n = slot.group->size();
  const int i = slot.group->index;
  // The own leaf is only read, as TreeSum promises, so the cast writes nothing.
  T* own = const_cast<T*>(static_cast<const T*>(op.in));
  T* out = static_cast<T*>(op.out);
  if (op.kind == OpKind::kReduceScatter) {
    own += i * op.count;
  } else if (!SendsWhole(slot)) {
    const int64_t at = PieceAt(PieceCount(op.type, op.count, n), op.count, i).begin;
    own += at;
    out += at;
  }
  // Pointers of the right type in room that is kept for the widest group.
  static_assert(sizeof(T*) == sizeof(void*));
  auto* leaves = reinterpret_cast<T**>(leaves_.data());
  for (int member = 0; member < n; ++member) {
    T* const piece = member == i ? own : reinterpret_cast<T*>(ScratchOf(slot, member));
    leaves[member] = member != i && IsFetched(slot, piece) ? piece : piece + begin;
  }
  if constexpr (sizeof(T) == 2) {
    NarrowTreeSum<T>(absl::MakeConstSpan(leaves, n), 0, end - begin, out + begin);
  } else {
    TreeSum<T>(absl::MakeConstSpan(leaves, n), i, 0, end - begin, out + begin,
               absl::MakeSpan(reinterpret_cast<T**>(nodes_.data()), n));
  }
}

absl::Status MessageCommunicator::CheckArrival(const Slot& slot, const Transfer& transfer) const {
  const auto source = std::find(slot.group->ranks.begin(), slot.group->ranks.end(), transfer.peer);
  const uint64_t expected = TagOf(slot, static_cast<int>(source - slot.group->ranks.begin()));
  std::string problem;
  if (KindOf(transfer.tag) != KindOf(expected)) {
    problem = absl::StrCat("is at ", OpName(KindOf(transfer.tag)));
  } else if (transfer.too_long) {
    problem = absl::StrCat("sent more than the ", transfer.bytes, " bytes expected");
  } else if (transfer.arrived_bytes != transfer.bytes) {
    problem = absl::StrCat("sent ", transfer.arrived_bytes, " bytes, not the ", transfer.bytes,
                           " expected");
  } else if (transfer.tag != expected) {
    problem = "has another type, root or size";
  } else {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(Describe(slot), ": ranks ", rank(), " and ",
                                                    transfer.peer, " disagree: rank ",
                                                    transfer.peer, " ", problem));
}

}  // namespace strata::collectives
