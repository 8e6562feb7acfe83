// The operations of Communicator, built on messages; every backend that has messages shares them.
//
// All-gather and reduce-scatter exchange pieces between all pairs directly: each rank moves the
// least bytes possible, and a piece arrives unreduced. Where the transport can leave it in its
// sender's memory, it is fetched and added in parts that fit the cache. A broadcast follows a
// binomial tree, a barrier is the dissemination barrier (Hensgen, Finkel, Manber, "Two algorithms
// for barrier synchronization", IJPP 1988).
#ifndef STRATA_COLLECTIVES_MESSAGE_COMMUNICATOR_H_
#define STRATA_COLLECTIVES_MESSAGE_COMMUNICATOR_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operation_ring.h"
#include "collectives/transport.h"

namespace strata::collectives {

class MessageCommunicator final : public Communicator {
 public:
  // Messages of one operation that are on their way at once, in each direction.
  static constexpr int kWindow = 8;

  MessageCommunicator(std::unique_ptr<Transport> transport, int max_operations);
  ~MessageCommunicator() override;

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  absl::StatusOr<GroupId> CreateGroup(absl::Span<const int> world_ranks) override;
  int GroupSize(GroupId group) const override;
  int GroupIndex(GroupId group) const override;
  absl::StatusOr<OperationId> Post(const Operation& operation) override;
  bool Progress() override;
  absl::StatusOr<bool> Test(OperationId id) override;
  void Wait(absl::Duration timeout) override;
  void Wake() override { transport_->Wake(); }
  void Cancel(absl::Status status) override;
  void SetRing(OperationRing* ring) override { ring_ = ring; }

 private:
  struct Group {
    std::vector<int> ranks;                 // of the world
    int index = 0;                          // this rank's place in it
    int unknown = -1;                       // its first member whose address is not known
    uint32_t key = 0;                       // in the tags of its messages
    uint32_t occurrence = 0;                // among groups of the same ranks
    uint64_t sequence = 0;                  // of the next collective
    std::vector<uint64_t> sends, receives;  // so far, by peer
    int size() const { return static_cast<int>(ranks.size()); }
  };

  // What an operation is at; each finishes before the next, and most operations skip some. kSent:
  // what it sends may be on its way while it adds (AddsFromPeers), and no longer.
  enum class Stage { kExchange, kCopyOwn, kAdd, kSent, kGather, kFinished };
  enum class SlotState { kFree, kActive, kDone, kFailed };

  struct Slot {
    SlotState state = SlotState::kFree;
    uint32_t generation = 0;
    Operation operation;
    Group* group = nullptr;
    uint64_t sequence = 0;
    uint64_t ring_number = 0;
    Stage stage = Stage::kExchange;
    int64_t position = 0;  // bytes copied or elements added in this stage
    int send_round = 0;    // next to post in this stage
    int receive_round = 0;
    int in_flight = 0;
    int receives_in_flight = 0;  // of these
    std::array<Transfer, kWindow> sends, receives;
    // Receives whose message stays with its sender until it has been added.
    std::array<bool, kWindow> stays = {};
  };

  // One message of an exchange, as seen from this rank.
  struct Message {
    int peer = -1;  // index in the group; -1: none in this round
    const void* from = nullptr;
    void* to = nullptr;
    int64_t bytes = 0;
  };

  // message_schedule.cc: which messages an operation exchanges.
  static int Rounds(const Slot& slot, bool send);
  static bool RoundsAreOrdered(const Slot& slot);
  static Message SendOf(const Slot& slot, int round);
  static Message ReceiveOf(const Slot& slot, int round);
  static std::byte* ScratchOf(const Slot& slot, int member);
  static bool SendsWhole(const Slot& slot);
  static bool AddsFromPeers(const Slot& slot);

  absl::Status Check(const Operation& operation) const;
  absl::Status CheckReach(const Operation& operation, const Group& group) const;
  absl::Status CheckAmounts(const Operation& operation, const Group& group) const;
  void Record(Slot& slot);
  uint64_t TagOf(const Slot& slot, int source) const;

  bool Advance(Slot& slot, int64_t* budget);
  bool Exchange(Slot& slot);
  bool Collect(Slot& slot);
  void PostSend(Slot& slot, Transfer& transfer, const Message& message);
  void PostReceive(Slot& slot, Transfer& transfer, const Message& message);
  bool Copy(Slot& slot, int64_t* budget);
  bool Add(Slot& slot, int64_t* budget);
  absl::Status FetchPieces(Slot& slot, int64_t begin, int64_t end);
  absl::Status ReleasePieces(Slot& slot);
  static bool IsFetched(const Slot& slot, const void* scratch);
  void AddRange(Slot& slot, int64_t begin, int64_t end);
  template <typename T>
  void AddRangeOf(Slot& slot, int64_t begin, int64_t end);
  int64_t ElementsToAdd(const Slot& slot) const;
  void NextStage(Slot& slot);

  absl::Status CheckArrival(const Slot& slot, const Transfer& transfer) const;
  void CheckStrays();
  std::string Describe(const Slot& slot) const;
  bool FailIfCancelled();
  void Fail(const absl::Status& status);
  void Finish(Slot& slot, SlotState state);

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<bool> connected_;  // by world rank
  std::vector<Slot> slots_;
  std::vector<uint32_t> active_;       // slots, in the order of posting
  std::vector<void*> leaves_, nodes_;  // room for the widest group
  OperationRing* ring_ = nullptr;
  absl::Status failure_;
  bool finished_something_ = false;

  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  absl::Status cancellation_;  // guarded by mutex_

  std::unique_ptr<Transport> transport_;  // goes first: it knows of transfers in slots_
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_MESSAGE_COMMUNICATOR_H_
