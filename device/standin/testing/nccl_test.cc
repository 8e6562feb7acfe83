// What NCCL's stand-in does when it is used right: forming, splitting, ending, each call's result,
// groups, graphs, and what is ordered behind what.
#include <cstring>

#include "device/standin/testing/nccl_ranks.h"

namespace strata::standin {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Of the first elements.
std::vector<float> ToHost(const float* data, size_t count, cudaStream_t stream) {
  std::vector<float> values(count);
  STRATA_EXPECT_CUDA(
      cudaMemcpyAsync(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream));
  return values;
}

// ---- Communicators

TEST_F(NcclTest, Version_AndTexts) {
  int version = 0;
  STRATA_EXPECT_NCCL(ncclGetVersion(&version));
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_STREQ(ncclGetErrorString(ncclInvalidUsage), "invalid usage");
  EXPECT_STREQ(ncclGetErrorString(ncclInProgress), "NCCL operation in progress");
}

TEST_F(NcclTest, ACommunicatorKnowsItsRanks_AndTellsItsLastError) {
  ExpectFound(3, FindingKind::kCollective, {"names rank 3 of 3"}, [](Rank& rank) {
    int count = 0, own = 0, device = 0;
    STRATA_EXPECT_NCCL(ncclCommCount(rank.comm, &count));
    STRATA_EXPECT_NCCL(ncclCommUserRank(rank.comm, &own));
    STRATA_EXPECT_NCCL(ncclCommCuDevice(rank.comm, &device));
    EXPECT_EQ(count, 3);
    EXPECT_EQ(own, rank.rank);
    EXPECT_EQ(device, rank.rank);
    EXPECT_EQ(
        ncclBroadcast(rank.in, rank.out, kCount, ncclFloat32, 3, rank.comm, rank.communication),
        ncclInvalidArgument);
    EXPECT_THAT(ncclGetLastError(rank.comm), HasSubstr("names rank 3 of 3"));
  });
}

TEST_F(NcclTest, Split_ByColourInOrderOfKeys) {
  ExpectClean(5, [](Rank& rank) {
    // 4 is left out; the others are even and odd, the highest first.
    ncclComm_t made = nullptr;
    const int colour = rank.rank == 4 ? NCCL_SPLIT_NOCOLOR : rank.rank % 2;
    STRATA_EXPECT_NCCL(ncclCommSplit(rank.comm, colour, -rank.rank, &made, nullptr));
    if (rank.rank == 4) {
      EXPECT_EQ(made, nullptr);
      return;
    }
    int count = 0, own = 0;
    STRATA_EXPECT_NCCL(ncclCommCount(made, &count));
    STRATA_EXPECT_NCCL(ncclCommUserRank(made, &own));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(own, rank.rank < 2 ? 1 : 0);
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_NCCL(ncclAllGather(rank.in, rank.out, 1, ncclFloat32, made, rank.communication));
    EXPECT_THAT(ToHost(rank.out, 2, rank.communication),
                ElementsAre(rank.rank % 2 + 3, rank.rank % 2 + 1));
  });
}

TEST_F(NcclTest, NonBlocking_EachStepIsInProgressUntilPolled) {
  InEachOrder([](StreamOrder order) {
    Reset({.stream_order = order, .device_count = 2});
    ncclUniqueId id;
    STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
    // One thread has both ranks.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comms[2] = {};
    ncclResult_t state = ncclSuccess;
    for (const int rank : {0, 1}) {
      STRATA_EXPECT_CUDA(cudaSetDevice(rank));
      EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
      STRATA_EXPECT_NCCL(ncclCommGetAsyncError(comms[0], &state));
      EXPECT_EQ(state, rank == 0 ? ncclInProgress : ncclSuccess);
    }
    for (const int rank : {0, 1}) {
      EXPECT_EQ(ncclCommFinalize(comms[rank]), ncclInProgress);
      STRATA_EXPECT_NCCL(ncclCommGetAsyncError(comms[0], &state));
      EXPECT_EQ(state, rank == 0 ? ncclInProgress : ncclSuccess);
    }
    for (const ncclComm_t comm : comms) STRATA_EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_THAT(TakeFindings(), IsEmpty());
  });
}

TEST_F(NcclTest, OneThreadWithAllRanks_FormsAndCallsInGroups) {
  InEachOrder([](StreamOrder order) {
    constexpr int kSize = 3;
    Reset({.stream_order = order, .device_count = kSize});
    ncclUniqueId id;
    STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comms[kSize] = {};
    cudaStream_t streams[kSize] = {};
    void* data[kSize] = {};
    STRATA_EXPECT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < kSize; ++rank) {
      STRATA_EXPECT_CUDA(cudaSetDevice(rank));
      STRATA_EXPECT_CUDA(cudaStreamCreate(&streams[rank]));
      STRATA_EXPECT_NCCL(ncclMemAlloc(&data[rank], kBufferBytes));
      STRATA_EXPECT_CUDA(cudaMemsetAsync(data[rank], rank + 1, kBufferBytes, streams[rank]));
      STRATA_EXPECT_NCCL(ncclCommInitRank(&comms[rank], kSize, id, rank));
    }
    STRATA_EXPECT_NCCL(ncclGroupEnd());
    STRATA_EXPECT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < kSize; ++rank) {
      STRATA_EXPECT_NCCL(ncclAllReduce(data[rank], data[rank], kBufferBytes, ncclUint8, ncclSum,
                                       comms[rank], streams[rank]));
    }
    STRATA_EXPECT_NCCL(ncclGroupEnd());
    for (int rank = 0; rank < kSize; ++rank) {
      STRATA_EXPECT_CUDA(cudaSetDevice(rank));
      std::vector<uint8_t> bytes(kBufferBytes);
      STRATA_EXPECT_CUDA(cudaMemcpyAsync(bytes.data(), data[rank], kBufferBytes,
                                         cudaMemcpyDeviceToHost, streams[rank]));
      STRATA_EXPECT_CUDA(cudaStreamSynchronize(streams[rank]));
      EXPECT_THAT(bytes, Each(6));
      STRATA_EXPECT_NCCL(ncclMemFree(data[rank]));
      STRATA_EXPECT_NCCL(ncclCommDestroy(comms[rank]));
    }
    EXPECT_THAT(TakeFindings(), IsEmpty());
  });
}

TEST_F(NcclTest, Registration) {
  ExpectFound(1, FindingKind::kCollective, {"deregisters what was not registered"}, [](Rank& rank) {
    void* handle = nullptr;
    STRATA_EXPECT_NCCL(ncclCommRegister(rank.comm, rank.in, kBufferBytes, &handle));
    STRATA_EXPECT_NCCL(ncclCommDeregister(rank.comm, handle));
    EXPECT_EQ(ncclCommDeregister(rank.comm, handle), ncclInvalidArgument);
    int host = 0;
    EXPECT_EQ(ncclCommRegister(rank.comm, &host, sizeof host, &handle), ncclInvalidArgument);
  });
}

// ---- Results that our own communicator does not ask for

TEST_F(NcclTest, ReduceBroadcastAndAllToAll) {
  ExpectClean(3, [](Rank& rank) {
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_NCCL(ncclReduce(rank.in, rank.out, kCount, ncclFloat32, ncclSum, 2, rank.comm,
                                  rank.communication));
    if (rank.rank == 2) {
      EXPECT_THAT(ToHost(rank.out, kCount, rank.communication), Each(6));
    }
    STRATA_EXPECT_NCCL(
        ncclBroadcast(rank.in, rank.out, kCount, ncclFloat32, 1, rank.comm, rank.communication));
    EXPECT_THAT(ToHost(rank.out, kCount, rank.communication), Each(2));
    STRATA_EXPECT_NCCL(
        ncclAlltoAll(rank.in, rank.out, 1, ncclFloat32, rank.comm, rank.communication));
    EXPECT_THAT(ToHost(rank.out, 3, rank.communication), ElementsAre(1, 2, 3));
  });
}

// 256 + 1 is no bf16: of three ranks' 256, 1, 1 nothing of the ones is left, whereas in f32 they
// would count.
TEST_F(NcclTest, SumsRoundAtEachRank) {
  ExpectClean(3, [](Rank& rank) {
    const std::vector<uint16_t> values(4, rank.rank == 0 ? 0x4380 : 0x3f80);
    STRATA_EXPECT_CUDA(
        cudaMemcpyAsync(rank.in, values.data(), 8, cudaMemcpyHostToDevice, rank.compute));
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_NCCL(rank.AllReduce(4, ncclBfloat16));
    std::vector<uint16_t> sum(4);
    STRATA_EXPECT_CUDA(
        cudaMemcpyAsync(sum.data(), rank.out, 8, cudaMemcpyDeviceToHost, rank.communication));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
    EXPECT_THAT(sum, Each(0x4380));
  });
}

TEST_F(NcclTest, WhatIsNotASum_IsUnsupported) {
  ExpectFound(1, FindingKind::kUnsupported, {"all-reduce", "not a sum"}, [](Rank& rank) {
    EXPECT_EQ(ncclAllReduce(rank.in, rank.out, kCount, ncclFloat32, ncclMax, rank.comm,
                            rank.communication),
              ncclInvalidArgument);
  });
}

// ---- Order

// A group on two streams waits for both and holds up both.
TEST_F(NcclTest, AGroupOnTwoStreams_IsBehindAndBeforeBoth) {
  ExpectClean(2, [](Rank& rank) {
    STRATA_EXPECT_NCCL(ncclGroupStart());
    STRATA_EXPECT_NCCL(ncclAllReduce(rank.in, rank.out, kCount, ncclFloat32, ncclSum, rank.comm,
                                     rank.communication));
    STRATA_EXPECT_NCCL(ncclAllReduce(rank.in + kCount, rank.out + kCount, kCount, ncclFloat32,
                                     ncclSum, rank.comm, rank.compute));
    STRATA_EXPECT_NCCL(ncclGroupEnd());
    EXPECT_THAT(ToHost(rank.out, 2 * kCount, rank.compute), Each(3));
  });
}

// Two all-reduces in a row on two streams, which rank 1 alone orders by an event: so rank 0's
// second comes after its first, whatever its own streams know of each other.
TEST_F(NcclTest, OrderThroughAnotherRank_IsOrder) {
  const auto run = [](bool ordered) {
    return [ordered](Rank& rank) {
      ncclComm_t other = nullptr;
      STRATA_EXPECT_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
      Rank::Order(rank.compute, rank.communication);
      float* const extra = rank.in + kCount;
      // Written before the first on rank 0, and read after the second.
      if (rank.rank == 0) {
        STRATA_EXPECT_CUDA(cudaMemsetAsync(extra, 0, 4, rank.communication));
      }
      STRATA_EXPECT_NCCL(rank.AllReduce());
      if (ordered && rank.rank == 1) Rank::Order(rank.communication, rank.compute);
      STRATA_EXPECT_NCCL(ncclAllReduce(rank.in, rank.out + kCount, kCount, ncclFloat32, ncclSum,
                                       other, rank.compute));
      if (rank.rank == 0) {
        STRATA_EXPECT_CUDA(cudaMemcpyAsync(rank.in + kCount + 4, extra, 4, cudaMemcpyDeviceToDevice,
                                           rank.compute));
      }
    };
  };
  ExpectClean(2, run(true));
  ExpectFound(2, FindingKind::kRace, {"a fill", "a copy on the device"}, run(false));
}

// The root of a broadcast gets nothing, so it is behind nobody.
TEST_F(NcclTest, ABroadcast_OrdersNothingForItsRoot) {
  void* shared = nullptr;
  ExpectFound(
      2, FindingKind::kRace, {"a copy to the host", "a copy to the device"}, [&shared](Rank& rank) {
        if (rank.rank == 0) {
          STRATA_EXPECT_CUDA(cudaMallocHost(&shared, kBufferBytes));
        }
        Rank::Order(rank.compute, rank.communication);
        STRATA_EXPECT_NCCL(rank.AllReduce());  // now rank 1 sees it
        STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
        if (rank.rank == 1) {
          STRATA_EXPECT_CUDA(cudaMemcpyAsync(shared, rank.out, kBufferBytes, cudaMemcpyDeviceToHost,
                                             rank.communication));
        }
        STRATA_EXPECT_NCCL(
            ncclBroadcast(rank.in, rank.in, kCount, ncclFloat32, 0, rank.comm, rank.communication));
        if (rank.rank == 0) {
          STRATA_EXPECT_CUDA(cudaMemcpyAsync(rank.in, shared, kBufferBytes, cudaMemcpyHostToDevice,
                                             rank.communication));
        }
      });
}

TEST_F(NcclTest, InAGraph_LaunchedAgainAndAgain) {
  ExpectClean(2, [](Rank& rank) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t execution = nullptr;
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_CUDA(
        cudaStreamBeginCapture(rank.communication, cudaStreamCaptureModeThreadLocal));
    STRATA_EXPECT_NCCL(ncclAllReduce(rank.in, rank.in, kCount, ncclFloat32, ncclSum, rank.comm,
                                     rank.communication));
    STRATA_EXPECT_NCCL(rank.AllReduce());
    STRATA_EXPECT_CUDA(cudaStreamEndCapture(rank.communication, &graph));
    STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
    for (int step = 0; step < 3; ++step) {
      STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, rank.communication));
    }
    EXPECT_THAT(ToHost(rank.out, kCount, rank.communication), Each(3 << 3));
    STRATA_EXPECT_CUDA(cudaGraphExecDestroy(execution));
    STRATA_EXPECT_CUDA(cudaGraphDestroy(graph));
  });
}

// A failed network: nothing of that rank's runs any more, and its streams hang until it aborts.
TEST_F(NcclTest, CommunicatorsThatFail_HangUntilTheyAreAborted) {
  InEachOrder([](StreamOrder order) {
    const auto findings = Run(order, 1, [](Rank& rank) {
      Rank::Order(rank.compute, rank.communication);
      STRATA_EXPECT_NCCL(rank.AllReduce());
      FailCommunicators(0, ncclRemoteError);
      ncclResult_t state = ncclSuccess;
      STRATA_EXPECT_NCCL(ncclCommGetAsyncError(rank.comm, &state));
      EXPECT_EQ(state, ncclRemoteError);
      EXPECT_EQ(rank.AllReduce(), ncclRemoteError);
      while (DescribeWaits().empty()) static_cast<void>(cudaStreamQuery(rank.communication));
      EXPECT_THAT(DescribeWaits(), HasSubstr("whose communicator has failed"));
      STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
      STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
    });
    EXPECT_THAT(findings, IsEmpty());
  });
}

}  // namespace
}  // namespace strata::standin
