#include "worker/engine/communication_binding.h"

#include <array>
#include <vector>

#include "collectives/loopback.h"
#include "gtest/gtest.h"
#include "planner/fit/collective_scratch.h"

namespace strata::worker {
namespace {

using program::Action;
using program::CollectiveOp;
using program::DType;
using program::Group;
using program::Mechanism;
using program::Stream;

class CommunicationBinding : public testing::Test {
 protected:
  // The table of rank 1 in a data group of `size`, of a world of as many.
  GroupTable Table(int size) {
    world_ = collectives::LoopbackWorld(size);
    std::map<program::Group, std::vector<int>> groups;
    for (int r = 0; size > 1 && r < size; ++r) {
      groups[Group::kData].push_back(r);
    }
    auto table = GroupTable::Create(groups, size > 1 ? world_[1].get() : nullptr);
    EXPECT_TRUE(table.ok()) << table.status();
    return *table;
  }
  static Action Collective(CollectiveOp op, int64_t bytes, DType dtype = DType::kF32) {
    Action action;
    action.mechanism = Mechanism::kCollective;
    action.stream = Stream::kGradients;
    action.communication = {.op = op, .group = Group::kData, .dtype = dtype, .bytes = bytes};
    return action;
  }
  BoundOperand At(int64_t offset, int64_t bytes) {
    return {.data = memory_.data() + offset, .bytes = bytes, .slot = memory_.data()};
  }

  std::vector<std::unique_ptr<collectives::Communicator>> world_;
  alignas(64) std::array<std::byte, 4096> memory_{};
};

TEST_F(CommunicationBinding, MovesBytesAndAddsNumbers) {
  const GroupTable table = Table(4);
  EXPECT_EQ(table.size(Group::kData), 4);
  EXPECT_EQ(table.index(Group::kData), 1);
  const auto gather = BindCommunication(Collective(CollectiveOp::kAllGather, 64, DType::kBF16),
                                        {At(64, 64), At(0, 256)}, table);
  ASSERT_TRUE(gather.ok()) << gather.status();
  EXPECT_EQ(gather->operation->type, collectives::DataType::kBytes);
  EXPECT_EQ(gather->operation->count, 64);
  const auto scatter = BindCommunication(Collective(CollectiveOp::kReduceScatter, 64),
                                         {At(0, 256), At(64, 64), At(1024, 192)}, table);
  ASSERT_TRUE(scatter.ok()) << scatter.status();
  EXPECT_EQ(scatter->operation->type, collectives::DataType::kF32);
  EXPECT_EQ(scatter->operation->count, 16);
  EXPECT_EQ(scatter->operation->scratch_bytes, 192);
  const auto narrow = BindCommunication(Collective(CollectiveOp::kReduceScatter, 64, DType::kBF16),
                                        {At(0, 256), At(64, 64), At(1024, 192)}, table);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(narrow->operation->type, collectives::DataType::kBF16);
  EXPECT_EQ(narrow->operation->count, 32);
}

TEST_F(CommunicationBinding, StreamsHaveGroupsOfTheirOwnAndSoHasEachDirectionOfMessages) {
  const GroupTable table = Table(2);
  EXPECT_FALSE(table.id(Group::kData, Stream::kGradients) ==
               table.id(Group::kData, Stream::kParameters));
  Action action;
  action.mechanism = Mechanism::kSend;
  action.stream = Stream::kSend;
  action.communication = {.group = Group::kData, .bytes = 64, .peer_offset = -1, .channel = 5};
  const auto send = BindCommunication(action, {At(0, 64)}, table);
  action.mechanism = Mechanism::kReceive;
  action.stream = Stream::kReceive;
  const auto from_before = BindCommunication(action, {At(64, 64)}, table);
  action.communication.peer_offset = 1;
  const auto from_after = BindCommunication(action, {At(64, 64)}, table);
  ASSERT_TRUE(send.ok() && from_before.ok() && from_after.ok());
  EXPECT_EQ(send->operation->group, from_after->operation->group);
  EXPECT_FALSE(send->operation->group == from_before->operation->group);
  EXPECT_EQ(send->operation->peer, 0);
  EXPECT_EQ(send->operation->tag, 5u);
  action.communication.peer_offset = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(BindCommunication(action, {At(0, 64)}, table).status()));
}

TEST_F(CommunicationBinding, ScratchThatIsTooSmallIsNamedInBytes) {
  const GroupTable table = Table(4);
  const int64_t needed = CollectiveScratchBytes(CollectiveOp::kReduceScatter, DType::kF32, 64, 4);
  EXPECT_GT(needed, 0);
  const absl::Status status =
      BindCommunication(Collective(CollectiveOp::kReduceScatter, 64),
                        {At(0, 256), At(64, 64), At(1024, needed - 1)}, table)
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(status.message().find(std::to_string(needed)), absl::string_view::npos) << status;
}

TEST_F(CommunicationBinding, ScratchIsWhatPlanningThinksItIs) {
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                CollectiveOp::kAllGather, CollectiveOp::kAllToAll}) {
    for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      for (const int ranks : {1, 2, 3, 4, 8, 33, 100}) {
        for (const int64_t bytes : {8, 72, 4096, 8192, 8200, 100'000, 1 << 24}) {
          EXPECT_EQ(planner::CollectiveScratch(op, type, bytes, ranks),
                    CollectiveScratchBytes(op, type, bytes, ranks))
              << Name(op) << " of " << bytes << " bytes of " << Name(type) << " in " << ranks;
        }
      }
    }
  }
}

TEST_F(CommunicationBinding, InAGroupOfOneACollectiveIsACopy) {
  const GroupTable table = Table(1);
  memory_[0] = std::byte{9};
  const auto reduce =
      BindCommunication(Collective(CollectiveOp::kAllReduce, 64), {At(0, 64), At(128, 64)}, table);
  ASSERT_TRUE(reduce.ok()) << reduce.status();
  EXPECT_FALSE(reduce->operation.has_value());
  ASSERT_TRUE(reduce->local().ok());
  EXPECT_EQ(memory_[128], std::byte{9});
}

TEST_F(CommunicationBinding, RefusesWhatItCannotDo) {
  const GroupTable table = Table(2);
  EXPECT_TRUE(
      absl::IsUnimplemented(BindCommunication(Collective(CollectiveOp::kAllReduce, 64, DType::kI32),
                                              {At(0, 64), At(64, 64)}, table)
                                .status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      BindCommunication(Collective(CollectiveOp::kAllGather, 64), {At(0, 64), At(0, 64)}, table)
          .status()));
  Action nowhere = Collective(CollectiveOp::kAllReduce, 64);
  nowhere.communication.group = Group::kNone;
  EXPECT_TRUE(
      absl::IsInvalidArgument(BindCommunication(nowhere, {At(0, 64), At(64, 64)}, table).status()));
}

TEST(GroupTable, RefusesGroupsWithoutThisRankOrWithoutACommunicator) {
  std::map<program::Group, std::vector<int>> groups;
  groups[Group::kData] = {1, 2};
  EXPECT_TRUE(absl::IsInvalidArgument(GroupTable::Create(groups, nullptr).status()));
  groups[Group::kData] = {0, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(GroupTable::Create(groups, nullptr).status()));
  groups[Group::kData] = {0};
  EXPECT_TRUE(GroupTable::Create(groups, nullptr).ok());
}

}  // namespace
}  // namespace strata::worker
