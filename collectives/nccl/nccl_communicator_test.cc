// The operations' results for worlds of one to eight ranks, each of which is a thread with a device
// of its own: on the stand-in in each order of streams, and on a machine with as many GPUs.
#include "collectives/nccl/nccl_communicator.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/loopback.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::collectives {
namespace {

using standin::DeviceArray;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr DataType kTypes[] = {DataType::kBytes, DataType::kF32, DataType::kF64, DataType::kBF16,
                               DataType::kF16};
constexpr OpKind kCollectives[] = {OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllReduce,
                                   OpKind::kBroadcast, OpKind::kAllToAll,      OpKind::kRotate};

bool Sums(OpKind kind) { return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter; }

using Bytes = std::vector<uint8_t>;

template <typename T>
void Append(Bytes& bytes, T value) {
  bytes.resize(bytes.size() + sizeof value);
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
}

Bytes Encode(DataType type, const std::vector<int>& values) {
  Bytes bytes;
  for (const int value : values) {
    const auto number = static_cast<float>(value);
    if (type == DataType::kBytes) Append(bytes, static_cast<uint8_t>(value));
    if (type == DataType::kF32) Append(bytes, number);
    if (type == DataType::kF64) Append(bytes, static_cast<double>(value));
    if (type == DataType::kBF16) Append(bytes, __float2bfloat16_rn(number));
    if (type == DataType::kF16) Append(bytes, __float2half_rn(number));
  }
  return bytes;
}

// Element i of a member's input: small, so that sums are exact in every type and order.
int Value(int member, int64_t i) { return static_cast<int>((3 * member + 5 * i) % 7) + 1; }

std::vector<int> Input(OpKind kind, int member, int members, int64_t count) {
  const bool whole = kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll;
  std::vector<int> values(whole ? members * count : count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = Value(member, static_cast<int64_t>(i));
  return values;
}

std::vector<int> Expected(OpKind kind, int member, int members, int64_t count, int root) {
  const bool whole = kind == OpKind::kAllGather || kind == OpKind::kAllToAll;
  const int64_t own =
      kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll ? member * count : 0;
  std::vector<int> values(whole ? members * count : count);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    if (whole) values[i] = Value(static_cast<int>(i / count), own + i % count);
    if (kind == OpKind::kBroadcast) values[i] = Value(root, i);
    if (kind == OpKind::kRotate) values[i] = Value((member + members - 1) % members, i);
    for (int from = 0; Sums(kind) && from < members; ++from) values[i] += Value(from, own + i);
  }
  return values;
}

void ExpectOk(const absl::Status& status) { EXPECT_EQ(status, absl::OkStatus()); }

class NcclCommunicatorTest : public standin::CudaTest {
 protected:
  // In each order and on each rank, with a communicator that is closed afterwards, unless the body
  // does.
  void OnEachRank(int size, const std::function<void(NcclCommunicator&, cudaStream_t)>& body,
                  bool closes = true) {
    const auto bootstrap = LoopbackWorld(size);
    InEachOrderOnRanks(size, [&](int rank, cudaStream_t stream) {
      auto communicator = NcclCommunicator::Create({.rank = rank,
                                                    .size = size,
                                                    .device = rank,
                                                    .share = ShareOver(bootstrap[rank].get()),
                                                    .timeout = kLong});
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(**communicator, stream);
      if (closes) ExpectOk((*communicator)->Close(kLong));
    });
  }
  static GroupId World(NcclCommunicator& communicator) {
    std::vector<int> ranks;
    for (int rank = 0; rank < communicator.size(); ++rank) ranks.push_back(rank);
    return GroupOf(communicator, ranks);
  }
  static GroupId GroupOf(NcclCommunicator& communicator, const std::vector<int>& ranks) {
    const absl::StatusOr<GroupId> group = communicator.CreateGroup(ranks);
    EXPECT_TRUE(group.ok()) << group.status();
    return group.value_or(GroupId{});
  }
  static GroupId CopyOf(NcclCommunicator& communicator, GroupId group) {
    const absl::StatusOr<GroupId> copy = communicator.Duplicate(group);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.value_or(GroupId{});
  }
};

void Record(cudaEvent_t& event, cudaStream_t stream) {
  STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  STRATA_EXPECT_CUDA(cudaEventRecord(event, stream));
}

// What `after` gets later comes after what `before` has now.
void Order(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t event = nullptr;
  Record(event, before);
  STRATA_EXPECT_CUDA(cudaStreamWaitEvent(after, event, 0));
  STRATA_EXPECT_CUDA(cudaEventDestroy(event));
}

class Stream {
 public:
  Stream() { STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

// ---- Results

class OnWorlds : public NcclCommunicatorTest, public testing::WithParamInterface<int> {};

void RunOne(NcclCommunicator& communicator, cudaStream_t stream, Operation op) {
  const int size = communicator.GroupSize(op.group), index = communicator.GroupIndex(op.group);
  const Bytes input = Encode(op.type, Input(op.kind, index, size, op.count));
  const Bytes expected = Encode(op.type, Expected(op.kind, index, size, op.count, op.peer));
  DeviceArray<uint8_t> in(input, stream), out(expected.size(), stream);
  op.in = in.data();
  op.out = op.kind == OpKind::kBroadcast ? in.data() : out.data();
  ExpectOk(communicator.Issue(op, stream));
  ExpectOk(communicator.Wait(stream, kLong));
  EXPECT_THAT((op.kind == OpKind::kBroadcast ? in : out).ToHost(), ElementsAreArray(expected))
      << OpName(op.kind) << " of " << op.count << " elements of type " << static_cast<int>(op.type)
      << " on member " << index << " of " << size;
}

TEST_P(OnWorlds, EachCollective_OfEachType_GivesEachMemberItsResult) {
  OnEachRank(GetParam(), [](NcclCommunicator& communicator, cudaStream_t stream) {
    const GroupId world = World(communicator);
    for (const OpKind kind : kCollectives) {
      for (const DataType type : kTypes) {
        if (Sums(kind) && type == DataType::kBytes) continue;
        for (const int64_t count : {1, 33}) {
          RunOne(communicator, stream,
                 {.kind = kind,
                  .group = world,
                  .type = type,
                  .count = count,
                  .peer = kind == OpKind::kBroadcast ? communicator.size() - 1 : 0});
        }
      }
    }
  });
}

TEST_P(OnWorlds, InPlace_AllGatherReduceScatterAndAllReduce) {
  OnEachRank(GetParam(), [](NcclCommunicator& communicator, cudaStream_t stream) {
    constexpr int64_t kCount = 6;
    constexpr DataType kType = DataType::kF32;
    const int size = communicator.size(), rank = communicator.rank();
    const GroupId world = World(communicator);
    for (const OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllReduce}) {
      const Bytes input = Encode(kType, Input(kind, rank, size, kCount));
      const Bytes expected = Encode(kType, Expected(kind, rank, size, kCount, 0));
      const size_t own = kind == OpKind::kAllReduce ? 0 : rank * kCount * sizeof(float);
      DeviceArray<uint8_t> buffer(std::max(input.size(), expected.size()), stream);
      uint8_t* const in = buffer.data() + (kind == OpKind::kAllGather ? own : 0);
      uint8_t* const out = buffer.data() + (kind == OpKind::kReduceScatter ? own : 0);
      STRATA_EXPECT_CUDA(
          cudaMemcpyAsync(in, input.data(), input.size(), cudaMemcpyHostToDevice, stream));
      ExpectOk(communicator.Issue(
          {.kind = kind, .group = world, .type = kType, .count = kCount, .in = in, .out = out},
          stream));
      Bytes result(expected.size());
      STRATA_EXPECT_CUDA(
          cudaMemcpyAsync(result.data(), out, result.size(), cudaMemcpyDeviceToHost, stream));
      ExpectOk(communicator.Wait(stream, kLong));
      EXPECT_THAT(result, ElementsAreArray(expected)) << OpName(kind);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, OnWorlds, testing::Range(1, 9));

TEST_F(NcclCommunicatorTest, Messages_MatchInOrder_AndExchangesAreIssuedTogether) {
  OnEachRank(4, [](NcclCommunicator& communicator, cudaStream_t stream) {
    const int rank = communicator.rank(), other = rank ^ 1;
    const GroupId world = World(communicator);
    DeviceArray<int> own(std::vector<int>{rank, rank + 10, rank + 20}, stream), theirs(3, stream);
    // Both ways at once: each would wait for the other if they were issued one by one.
    const Operation send{.kind = OpKind::kSend, .group = world, .count = 4, .peer = other};
    std::vector<Operation> exchange;
    for (const int i : {0, 1, 2}) {
      exchange.push_back(send);
      exchange.back().in = own.data() + i;
      exchange.push_back({.kind = OpKind::kReceive,
                          .group = world,
                          .count = 4,
                          .out = theirs.data() + i,
                          .peer = other});
    }
    ExpectOk(communicator.IssueTogether(exchange, stream));
    ExpectOk(communicator.Wait(stream, kLong));
    EXPECT_THAT(theirs.ToHost(), testing::ElementsAre(other, other + 10, other + 20));
    // One way, one by one.
    const bool sends = rank % 2 == 0;
    for (const int i : {0, 1, 2}) {
      ExpectOk(communicator.Issue({.kind = sends ? OpKind::kSend : OpKind::kReceive,
                                   .group = world,
                                   .count = 4,
                                   .in = sends ? own.data() + 2 - i : nullptr,
                                   .out = sends ? nullptr : theirs.data() + i,
                                   .peer = other},
                                  stream));
    }
    ExpectOk(communicator.Wait(stream, kLong));
    if (!sends) {
      EXPECT_THAT(theirs.ToHost(), testing::ElementsAre(other + 20, other + 10, other));
    }
  });
}

TEST_F(NcclCommunicatorTest, Groups_OfSomeRanksInAnyOrder_AreIndependent) {
  OnEachRank(6, [](NcclCommunicator& communicator, cudaStream_t stream) {
    const int rank = communicator.rank();
    const GroupId world = World(communicator);
    const GroupId half =
        rank < 3 ? GroupOf(communicator, {2, 0, 1}) : GroupOf(communicator, {3, 4, 5});
    const std::vector<int> pair = {rank % 3, rank % 3 + 3};
    const GroupId across = GroupOf(communicator, pair);
    EXPECT_EQ(communicator.GroupSize(half), 3);
    EXPECT_EQ(communicator.GroupIndex(half), rank < 3 ? (rank + 1) % 3 : rank - 3);
    for (const GroupId group : {world, half, across, half}) {
      RunOne(communicator, stream,
             {.kind = OpKind::kAllGather, .group = group, .type = DataType::kF32, .count = 5});
    }
  });
}

// ---- Order

// Gathers run ahead on a stream of their own while sums of what was gathered follow, as parameters
// and gradients do.
TEST_F(NcclCommunicatorTest, TwoGroupsOnTwoStreams_RunSideBySide_OrderedByEvents) {
  constexpr int kSize = 4, kLayers = 6, kCount = 64;
  OnEachRank(kSize, [](NcclCommunicator& communicator, cudaStream_t sums) {
    const Stream gathers;
    const GroupId world = World(communicator), copy = CopyOf(communicator, world);
    const int rank = communicator.rank();
    std::vector<float> layers(kLayers * kCount);
    for (int i = 0; i < kLayers * kCount; ++i) layers[i] = static_cast<float>(Value(rank, i));
    DeviceArray<float> own(layers, gathers), sum(kLayers * kCount, sums);
    DeviceArray<float> first(kSize * kCount, gathers), second(kSize * kCount, gathers);
    float* const whole[] = {first.data(), second.data()};
    cudaEvent_t summed[kLayers] = {};
    for (int layer = 0; layer < kLayers; ++layer) {
      if (layer >= 2) {
        STRATA_EXPECT_CUDA(cudaStreamWaitEvent(gathers, summed[layer - 2], 0));
      }
      ExpectOk(communicator.Issue({.kind = OpKind::kAllGather,
                                   .group = world,
                                   .type = DataType::kF32,
                                   .count = kCount,
                                   .in = own.data() + layer * kCount,
                                   .out = whole[layer % 2]},
                                  gathers));
      Order(gathers, sums);
      ExpectOk(communicator.Issue({.kind = OpKind::kReduceScatter,
                                   .group = copy,
                                   .type = DataType::kF32,
                                   .count = kCount,
                                   .in = whole[layer % 2],
                                   .out = sum.data() + layer * kCount},
                                  sums));
      Record(summed[layer], sums);
    }
    ExpectOk(communicator.Wait(sums, kLong));
    // Every member has the same whole, so the sum is a multiple of the part.
    for (float& value : layers) value *= kSize;
    EXPECT_THAT(sum.ToHost(), ElementsAreArray(layers));
    for (const cudaEvent_t event : summed) STRATA_EXPECT_CUDA(cudaEventDestroy(event));
  });
}

// One forward, one backward: stages exchange activations and their gradients, each on a stream and
// a group of its own, so that neither direction waits for the other.
TEST_F(NcclCommunicatorTest, PipelineDirections_HaveGroupsOfTheirOwn) {
  constexpr int kSize = 3, kBatches = 5, kCount = 16, kBytes = kCount * sizeof(int);
  OnEachRank(kSize, [](NcclCommunicator& communicator, cudaStream_t forward) {
    const Stream backward;
    const GroupId down = World(communicator), up = CopyOf(communicator, down);
    const int rank = communicator.rank();
    DeviceArray<int> x(kBatches * kCount, forward), g(kBatches * kCount, backward);
    for (int batch = 0; batch < kBatches; ++batch) {
      int* const activation = x.data() + batch * kCount;
      if (rank == 0) {
        STRATA_EXPECT_CUDA(cudaMemsetAsync(activation, batch, kBytes, forward));
      } else {
        ExpectOk(communicator.Issue({.kind = OpKind::kReceive,
                                     .group = down,
                                     .count = kBytes,
                                     .out = activation,
                                     .peer = rank - 1},
                                    forward));
      }
      if (rank + 1 < kSize) {
        ExpectOk(communicator.Issue({.kind = OpKind::kSend,
                                     .group = down,
                                     .count = kBytes,
                                     .in = activation,
                                     .peer = rank + 1},
                                    forward));
      }
    }
    for (int batch = 0; batch < kBatches; ++batch) {
      int* const gradient = g.data() + batch * kCount;
      if (rank + 1 == kSize) {
        Order(forward, backward);
        STRATA_EXPECT_CUDA(cudaMemcpyAsync(gradient, x.data() + batch * kCount, kBytes,
                                           cudaMemcpyDeviceToDevice, backward));
      } else {
        ExpectOk(communicator.Issue({.kind = OpKind::kReceive,
                                     .group = up,
                                     .count = kBytes,
                                     .out = gradient,
                                     .peer = rank + 1},
                                    backward));
      }
      if (rank > 0) {
        ExpectOk(communicator.Issue(
            {.kind = OpKind::kSend, .group = up, .count = kBytes, .in = gradient, .peer = rank - 1},
            backward));
      }
    }
    ExpectOk(communicator.Wait(backward, kLong));
    const std::vector<int> result = g.ToHost();
    for (int i = 0; i < kBatches * kCount; ++i) EXPECT_EQ(result[i], 0x01010101 * (i / kCount));
  });
}

// Memory that both reach: what is written before a barrier may be read by others after it.
TEST_F(NcclCommunicatorTest, Barrier_OrdersWhatMembersDid) {
  constexpr int kSize = 3;
  int* shared = nullptr;
  OnEachRank(kSize, [&shared](NcclCommunicator& communicator, cudaStream_t stream) {
    const GroupId world = World(communicator);
    const Operation barrier{.kind = OpKind::kBarrier, .group = world};
    if (communicator.rank() == 0) {
      STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&shared), sizeof(int)));
    }
    ExpectOk(communicator.Issue(barrier, stream));
    ExpectOk(communicator.Wait(stream, kLong));
    DeviceArray<int> value(std::vector<int>{7}, stream), read(1, stream);
    if (communicator.rank() == 0) {
      STRATA_EXPECT_CUDA(
          cudaMemcpyAsync(shared, value.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    }
    ExpectOk(communicator.Issue(barrier, stream));
    STRATA_EXPECT_CUDA(
        cudaMemcpyAsync(read.data(), shared, sizeof(int), cudaMemcpyHostToDevice, stream));
    ExpectOk(communicator.Issue(barrier, stream));
    EXPECT_THAT(read.ToHost(), testing::ElementsAre(7));
    if (communicator.rank() == 0) {
      STRATA_EXPECT_CUDA(cudaFreeHost(shared));
    }
  });
}

TEST_F(NcclCommunicatorTest, SmallOperations_OfSeveralGroups_AreIssuedAsOne) {
  OnEachRank(3, [](NcclCommunicator& communicator, cudaStream_t stream) {
    const GroupId world = World(communicator), copy = CopyOf(communicator, world);
    DeviceArray<float> values(std::vector<float>{1, 2, 3, 4}, stream);
    std::vector<Operation> together;
    for (const int i : {0, 1, 2, 3}) {
      together.push_back({.kind = OpKind::kAllReduce,
                          .group = i % 2 == 0 ? world : copy,
                          .type = DataType::kF32,
                          .count = 1,
                          .in = values.data() + i,
                          .out = values.data() + i});
    }
    ExpectOk(communicator.IssueTogether(together, stream));
    ExpectOk(communicator.Wait(stream, kLong));
    EXPECT_THAT(values.ToHost(), testing::ElementsAre(3, 6, 9, 12));
  });
}

TEST_F(NcclCommunicatorTest, RegisteredMemory_IsUsedLikeAnyOther) {
  OnEachRank(
      2,
      [](NcclCommunicator& communicator, cudaStream_t stream) {
        const GroupId world = World(communicator);
        DeviceArray<float> values(std::vector<float>(128, 1.0f), stream);
        ExpectOk(communicator.Register(world, values.data(), 128 * sizeof(float)));
        for (int step = 0; step < 3; ++step) {
          ExpectOk(communicator.Issue({.kind = OpKind::kAllReduce,
                                       .group = world,
                                       .type = DataType::kF32,
                                       .count = 128,
                                       .in = values.data(),
                                       .out = values.data()},
                                      stream));
        }
        EXPECT_THAT(values.ToHost(), testing::Each(8));
        ExpectOk(communicator.Close(kLong));  // while the memory is there
      },
      false);
}

// ---- Arguments

TEST_F(NcclCommunicatorTest, WhatCannotBe_IsRefused_AndHarmsNothing) {
  InEachOrderOnRanks(1, [](int, cudaStream_t stream) {
    EXPECT_EQ(NcclCommunicator::Create({.rank = 1}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(NcclCommunicator::Create({.size = 2}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(NcclCommunicator::Create({.device = 99}).status().code(),
              absl::StatusCode::kUnavailable);
    auto made = NcclCommunicator::Create({});
    ASSERT_TRUE(made.ok());
    NcclCommunicator& communicator = **made;
    const auto refuses = [&](const absl::Status& status, const char* why) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr(why));
    };
    refuses(communicator.CreateGroup({1}).status(), "must be distinct and in the world");
    refuses(communicator.CreateGroup({0, 0}).status(), "must be distinct");
    refuses(communicator.CreateGroup({}).status(), "without itself");
    const GroupId world = World(communicator);
    DeviceArray<float> x(std::vector<float>{5}, stream);
    Operation op{.kind = OpKind::kAllReduce,
                 .group = world,
                 .type = DataType::kF32,
                 .count = 1,
                 .in = x.data(),
                 .out = x.data()};
    const auto with = [&](auto&& change) {
      Operation other = op;
      change(other);
      return communicator.Issue(other, stream);
    };
    refuses(with([](Operation& o) { o.group.value = 7; }), "no group 7");
    refuses(with([](Operation& o) { o.count = -1; }), "negative");
    refuses(with([](Operation& o) { o.type = DataType::kBytes; }), "cannot be summed");
    refuses(with([](Operation& o) { o.in = nullptr; }), "a buffer is missing");
    refuses(with([](Operation& o) { o.kind = OpKind::kRotate; }), "in place");
    refuses(with([](Operation& o) { o.kind = OpKind::kBroadcast, o.peer = 1; }), "no member 1");
    refuses(with([](Operation& o) { o.kind = OpKind::kSend; }), "to oneself");
    ExpectOk(communicator.Issue(op, stream));
    EXPECT_THAT(x.ToHost(), testing::ElementsAre(5));
    ExpectOk(communicator.Close(kLong));
    EXPECT_EQ(communicator.Issue(op, stream).code(), absl::StatusCode::kFailedPrecondition);
  });
}

}  // namespace
}  // namespace strata::collectives
