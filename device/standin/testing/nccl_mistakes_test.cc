// Planted mistakes in the use of NCCL: each is found in each order of streams, and named with both
// sides.
#include <atomic>

#include "device/standin/testing/nccl_ranks.h"

namespace strata::standin {
namespace {

using testing::HasSubstr;

class NcclMistakesTest : public NcclTest {};

// ---- Around an operation

enum class Missing { kNothing, kEventBefore, kEventAfter, kEventBeforeReuse };

// Gradients are summed on a stream of their own: computed, summed, used; then their memory is used
// again.
void SumAndUse(const Rank& rank, Missing missing) {
  if (missing != Missing::kEventBefore) Rank::Order(rank.compute, rank.communication);
  STRATA_EXPECT_NCCL(rank.AllReduce());
  if (missing != Missing::kEventAfter) Rank::Order(rank.communication, rank.compute);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(rank.out + kCount, rank.out, kBufferBytes,
                                     cudaMemcpyDeviceToDevice, rank.compute));
}

TEST_F(NcclMistakesTest, NoMistake_NoFinding) {
  ExpectClean(2, [](Rank& rank) {
    SumAndUse(rank, Missing::kNothing);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.in, 0, kBufferBytes, rank.compute));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.compute));
    STRATA_EXPECT_NCCL(ncclCommDestroy(rank.comm));
  });
}

TEST_F(NcclMistakesTest, EventBeforeACollectiveMissing_OnOneRankOnly) {
  ExpectFound(2, FindingKind::kRace,
              {"read of global", "a copy to the device", "all-reduce of 64 × f32 by rank 1"},
              [](Rank& rank) {
                SumAndUse(rank, rank.rank == 1 ? Missing::kEventBefore : Missing::kNothing);
              });
}

TEST_F(NcclMistakesTest, EventAfterACollectiveMissing_OnOneRankOnly) {
  ExpectFound(3, FindingKind::kRace, {"all-reduce of 64 × f32 by rank 2", "a copy on the device"},
              [](Rank& rank) {
                SumAndUse(rank, rank.rank == 2 ? Missing::kEventAfter : Missing::kNothing);
              });
}

TEST_F(NcclMistakesTest, BufferReusedWhileACollectiveReadsIt) {
  ExpectFound(2, FindingKind::kRace, {"all-reduce of 64 × f32 by rank 0", "a fill"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                STRATA_EXPECT_NCCL(rank.AllReduce());
                if (rank.rank != 0) return;
                STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.in, 0, kBufferBytes, rank.compute));
              });
}

TEST_F(NcclMistakesTest, BufferFreedBeforeACollectiveHasRun) {
  InEachOrder([](StreamOrder order) {
    const auto findings = Run(order, 2, [](Rank& rank) {
      Rank::Order(rank.compute, rank.communication);
      STRATA_EXPECT_NCCL(rank.AllReduce());
      if (rank.rank == 0) {
        STRATA_EXPECT_CUDA(cudaFreeAsync(rank.in, rank.compute));
      }
    });
    // Whichever ran first.
    EXPECT_THAT(
        findings,
        testing::Contains(testing::AllOf(
            testing::Field(&Finding::kind,
                           testing::AnyOf(FindingKind::kRace, FindingKind::kOutOfBounds)),
            testing::Field(&Finding::text, HasSubstr("all-reduce of 64 × f32 by rank 0")))));
  });
}

TEST_F(NcclMistakesTest, InputThatNothingWrote) {
  ExpectFound(2, FindingKind::kUninitialised, {"all-gather", "by rank 1"}, [](Rank& rank) {
    Rank::Order(rank.compute, rank.communication);
    float* empty = nullptr;
    STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&empty), kBufferBytes));
    if (rank.rank == 1) rank.in = empty;
    STRATA_EXPECT_NCCL(rank.AllGather());
  });
}

// ---- Members that disagree

TEST_F(NcclMistakesTest, OrderSwappedOnOneRank) {
  ExpectFound(3, FindingKind::kCollective,
              {"members disagree", "issues all-reduce of 64 × f32", "issues all-gather"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                float* const first = rank.out;
                if (rank.rank == 1) {
                  STRATA_EXPECT_NCCL(rank.AllGather());
                }
                STRATA_EXPECT_NCCL(rank.AllReduce());
                if (rank.rank != 1) {
                  STRATA_EXPECT_NCCL(rank.AllGather());
                }
                rank.out = first;
              });
}

TEST_F(NcclMistakesTest, OrderOfTwoCommunicatorsSwappedOnOneRank) {
  ExpectFound(2, FindingKind::kCollective,
              {"different orders", "rank 0 of communicator", "rank 1 of communicator",
               "communicator #1", "communicator #2"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                ncclComm_t other = nullptr;
                STRATA_EXPECT_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
                const auto all_reduce = [&](ncclComm_t comm, float* out, cudaStream_t stream) {
                  STRATA_EXPECT_NCCL(
                      ncclAllReduce(rank.in, out, kCount, ncclFloat32, ncclSum, comm, stream));
                };
                if (rank.rank == 0) all_reduce(rank.comm, rank.out, rank.communication);
                all_reduce(other, rank.out + kCount, rank.compute);
                if (rank.rank == 1) all_reduce(rank.comm, rank.out, rank.communication);
              });
}

TEST_F(NcclMistakesTest, CountsDiffer) {
  ExpectFound(2, FindingKind::kCollective,
              {"rank 0", "all-reduce of 64 × f32", "rank 1", "all-reduce of 63 × f32"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                STRATA_EXPECT_NCCL(rank.AllReduce(rank.rank == 1 ? kCount - 1 : kCount));
              });
}

TEST_F(NcclMistakesTest, TypesDiffer) {
  ExpectFound(
      2, FindingKind::kCollective, {"all-reduce of 64 × f32", "all-reduce of 64 × bf16"},
      [](Rank& rank) {
        Rank::Order(rank.compute, rank.communication);
        STRATA_EXPECT_NCCL(rank.AllReduce(kCount, rank.rank == 1 ? ncclBfloat16 : ncclFloat32));
      });
}

TEST_F(NcclMistakesTest, RootsDiffer) {
  ExpectFound(2, FindingKind::kCollective, {"from rank 0", "from rank 1"}, [](Rank& rank) {
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_NCCL(ncclBroadcast(rank.in, rank.in, kCount, ncclFloat32, rank.rank, rank.comm,
                                     rank.communication));
  });
}

TEST_F(NcclMistakesTest, MessageOfOtherSizeThanItsReceive) {
  ExpectFound(
      2, FindingKind::kCollective, {"send of 64 × f32", "receive of 32 × f32"}, [](Rank& rank) {
        Rank::Order(rank.compute, rank.communication);
        STRATA_EXPECT_NCCL(
            rank.rank == 0
                ? ncclSend(rank.in, kCount, ncclFloat32, 1, rank.comm, rank.communication)
                : ncclRecv(rank.out, kCount / 2, ncclFloat32, 0, rank.comm, rank.communication));
      });
}

// ---- What never comes

TEST_F(NcclMistakesTest, CollectiveLeftOutOnOneRank_IsADeadlockThatNamesIt) {
  ExpectFound(3, FindingKind::kDeadlock,
              {"all-reduce of 64 × f32 by rank", "waits for rank 1", "which has not issued it"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                if (rank.rank != 1) {
                  STRATA_EXPECT_NCCL(rank.AllReduce());
                }
              });
}

TEST_F(NcclMistakesTest, ExchangeWithoutAGroup_WaitsForItself) {
  ExpectFound(2, FindingKind::kDeadlock,
              {"send of 64 × f32 by rank 0", "rank 1 of communicator #1",
               "whose stream stands at send of 64 × f32 by rank 1"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                const int other = 1 - rank.rank;
                STRATA_EXPECT_NCCL(
                    ncclSend(rank.in, kCount, ncclFloat32, other, rank.comm, rank.communication));
                STRATA_EXPECT_NCCL(
                    ncclRecv(rank.out, kCount, ncclFloat32, other, rank.comm, rank.communication));
              });
}

// The stream of one waits for an event that comes after what the other waits for.
TEST_F(NcclMistakesTest, TwoCommunicatorsOnOneStreamInDifferentOrders_WaitForEachOther) {
  ExpectFound(2, FindingKind::kDeadlock, {"by rank 0", "by rank 1", "whose stream stands at"},
              [](Rank& rank) {
                ncclComm_t other = nullptr;
                STRATA_EXPECT_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
                Rank::Order(rank.compute, rank.communication);
                for (const ncclComm_t comm :
                     {rank.rank == 0 ? rank.comm : other, rank.rank == 0 ? other : rank.comm}) {
                  STRATA_EXPECT_NCCL(ncclAllReduce(rank.in, rank.out, kCount, ncclFloat32, ncclSum,
                                                   comm, rank.communication));
                }
              });
}

TEST_F(NcclMistakesTest, RankThatDiesBeforeItJoins_LeavesADeadlockInBlockingInit) {
  Reset({.device_count = 2, .patience_seconds = 0.2});
  ncclUniqueId id;
  STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  EXPECT_THAT(TakeFindings(),
              testing::ElementsAre(testing::Field(
                  &Finding::text, HasSubstr("rank 0 of communicator #1 waits for members that "
                                            "have not joined"))));
}

TEST_F(NcclMistakesTest, AbortWhileAnotherWaits_LeavesItWaitingUntilItAbortsToo) {
  InEachOrder([](StreamOrder order) {
    std::atomic<bool> aborted = false;
    const auto findings = Run(order, 2, [&](Rank& rank) {
      Rank::Order(rank.compute, rank.communication);
      if (rank.rank == 0) {
        STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
        aborted = true;
        return;
      }
      STRATA_EXPECT_NCCL(rank.AllReduce());
      while (!aborted || DescribeWaits().empty()) {
        static_cast<void>(cudaStreamQuery(rank.communication));
      }
      EXPECT_THAT(DescribeWaits(),
                  HasSubstr("waits for rank 0 of communicator #1, which has left"));
      EXPECT_EQ(cudaStreamQuery(rank.communication), cudaErrorNotReady);
      STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
      STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
    });
    EXPECT_THAT(findings, testing::IsEmpty());
  });
}

// ---- Misuse

TEST_F(NcclMistakesTest, GroupEndForgotten_BeforeAnEventIsRecorded) {
  ExpectFound(2, FindingKind::kCollective,
              {"an event is recorded without an ncclGroupEnd", "all-reduce of 64 × f32 by rank 1",
               "was not issued"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                STRATA_EXPECT_NCCL(ncclGroupStart());
                STRATA_EXPECT_NCCL(rank.AllReduce());
                if (rank.rank == 0) {
                  STRATA_EXPECT_NCCL(ncclGroupEnd());
                }
                Rank::Order(rank.communication, rank.compute);
                if (rank.rank == 1) {
                  STRATA_EXPECT_NCCL(ncclGroupEnd());
                }
              });
}

TEST_F(NcclMistakesTest, GroupEndForgotten_ByAThreadThatEnds) {
  ExpectFound(1, FindingKind::kCollective, {"the thread ends without an ncclGroupEnd"},
              [](Rank&) { STRATA_EXPECT_NCCL(ncclGroupStart()); });
}

TEST_F(NcclMistakesTest, UseAfterAbortAndAfterDestroy) {
  ExpectFound(1, FindingKind::kCollective, {"ncclAllReduce", "which was aborted"}, [](Rank& rank) {
    STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
    EXPECT_EQ(rank.AllReduce(), ncclInvalidArgument);
  });
  ExpectFound(1, FindingKind::kCollective, {"ncclCommDestroy", "which was destroyed"},
              [](Rank& rank) {
                STRATA_EXPECT_NCCL(ncclCommDestroy(rank.comm));
                EXPECT_EQ(ncclCommDestroy(rank.comm), ncclInvalidArgument);
              });
}

TEST_F(NcclMistakesTest, MemoryAndStreamsOfAnotherDevice) {
  InEachOrder([](StreamOrder order) {
    std::atomic<float*> theirs = nullptr;
    const auto findings = Run(order, 2, [&](Rank& rank) {
      if (rank.rank == 0) {
        theirs = rank.in;
        return;
      }
      while (theirs == nullptr) std::this_thread::yield();
      rank.in = theirs;
      EXPECT_EQ(rank.AllReduce(), ncclInvalidArgument);
    });
    EXPECT_THAT(findings, testing::ElementsAre(testing::Field(
                              &Finding::text, HasSubstr("all-reduce of 64 × f32 by rank 1 of "
                                                        "communicator #1 uses another device's"))));
  });
  ExpectFound(2, FindingKind::kCollective, {"is issued to a stream of device 0"}, [](Rank& rank) {
    if (rank.rank == 0) return;
    STRATA_EXPECT_CUDA(cudaSetDevice(0));
    STRATA_EXPECT_CUDA(cudaStreamCreate(&rank.communication));
    EXPECT_EQ(rank.AllReduce(), ncclInvalidArgument);
  });
  ExpectFound(1, FindingKind::kCollective, {"uses what is no memory of a device"}, [](Rank& rank) {
    std::vector<float> host(kCount);
    rank.in = host.data();
    EXPECT_EQ(rank.AllReduce(), ncclInvalidArgument);
  });
}

TEST_F(NcclMistakesTest, InPlaceWhereItCannotBe) {
  ExpectFound(
      2, FindingKind::kCollective, {"all-to-all", "cannot be done in place"}, [](Rank& rank) {
        EXPECT_EQ(
            ncclAlltoAll(rank.in, rank.in, kCount, ncclFloat32, rank.comm, rank.communication),
            ncclInvalidArgument);
      });
  ExpectFound(2, FindingKind::kCollective, {"reduce-scatter", "not its own"}, [](Rank& rank) {
    EXPECT_EQ(ncclReduceScatter(rank.in, rank.in + (1 - rank.rank) * kCount, kCount, ncclFloat32,
                                ncclSum, rank.comm, rank.communication),
              ncclInvalidArgument);
  });
  ExpectFound(2, FindingKind::kCollective, {"in one group", "send", "receive", "the same memory"},
              [](Rank& rank) {
                Rank::Order(rank.compute, rank.communication);
                STRATA_EXPECT_NCCL(ncclGroupStart());
                STRATA_EXPECT_NCCL(ncclSend(rank.in, kCount, ncclFloat32, 1 - rank.rank, rank.comm,
                                            rank.communication));
                STRATA_EXPECT_NCCL(ncclRecv(rank.in, kCount, ncclFloat32, 1 - rank.rank, rank.comm,
                                            rank.communication));
                STRATA_EXPECT_NCCL(ncclGroupEnd());
              });
}

TEST_F(NcclMistakesTest, RegisteredMemoryFreedBeforeTheCommunicatorEnds) {
  ExpectFound(1, FindingKind::kCollective, {"registered when it was freed"}, [](Rank& rank) {
    void* handle = nullptr;
    STRATA_EXPECT_NCCL(ncclCommRegister(rank.comm, rank.out, kBufferBytes, &handle));
    STRATA_EXPECT_CUDA(cudaFree(rank.out));
    STRATA_EXPECT_NCCL(ncclCommDestroy(rank.comm));
  });
}

// ---- Forming

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

TEST_F(NcclMistakesTest, RanksThatDoNotFitTogether) {
  Reset({.device_count = 2});
  ncclUniqueId id;
  STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NonBlocking();
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &config), ncclInvalidUsage);
  STRATA_EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, id, 0, &config), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitRankConfig(&second, 3, id, 1, &config), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, {}, 1, &config), ncclInvalidArgument);
  ncclConfig_t raw = {};
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &raw), ncclInvalidArgument);
  const auto says = [](const char* words) {
    return testing::Field(&Finding::text, HasSubstr(words));
  };
  EXPECT_THAT(TakeFindings(),
              testing::ElementsAre(says("joins on device 0, as has rank 0"), says("joins twice"),
                                   says("joins one of 3 ranks, others one of 2"),
                                   says("an id that ncclGetUniqueId has not made"),
                                   says("a config without its initializer")));
}

// ---- Calls that are in progress

class InProgressTest : public NcclTest {
 protected:
  // The ranks' communicators are split into non-blocking ones.
  static Body NonBlockingRanks(const Body& body) {
    return [body](Rank& rank) {
      ncclConfig_t config = NonBlocking();
      ncclComm_t made = nullptr;
      STRATA_EXPECT_NCCL(ncclCommSplit(rank.comm, 0, rank.rank, &made, &config));
      rank.comm = made;
      Await(rank.comm);
      Rank::Order(rank.compute, rank.communication);
      body(rank);
    };
  }
  static void Await(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) STRATA_EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    STRATA_EXPECT_NCCL(state);
  }
};

TEST_F(InProgressTest, Awaited_NoFinding) {
  ExpectClean(2, NonBlockingRanks([](Rank& rank) {
                EXPECT_EQ(rank.AllReduce(), ncclInProgress);
                Await(rank.comm);
                Rank::Order(rank.communication, rank.compute);
                STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.in, 0, kBufferBytes, rank.compute));
              }));
}

TEST_F(InProgressTest, NextCallTooEarly) {
  ExpectFound(2, FindingKind::kCollective,
              {"all-gather", "is issued before the last call has ended"},
              NonBlockingRanks([](Rank& rank) {
                EXPECT_EQ(rank.AllReduce(), ncclInProgress);
                EXPECT_EQ(rank.AllGather(), ncclInvalidArgument);
                Await(rank.comm);
              }));
}

TEST_F(InProgressTest, EventRecordedTooEarly_IsBeforeTheOperation) {
  ExpectFound(2, FindingKind::kRace, {"all-reduce", "a fill"}, NonBlockingRanks([](Rank& rank) {
                EXPECT_EQ(rank.AllReduce(), ncclInProgress);
                Rank::Order(rank.communication, rank.compute);
                Await(rank.comm);
                STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.in, 0, kBufferBytes, rank.compute));
              }));
}

}  // namespace
}  // namespace strata::standin
