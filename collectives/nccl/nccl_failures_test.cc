// What fails, ends: members that never come, die or hang, networks and devices that fail. Nobody
// waits longer than was said, and streams are left without work that hangs.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "common/clock.h"
#include "device/standin/nccl_standin.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::collectives {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kLong = absl::Seconds(60), kShort = absl::Milliseconds(100);

void ExpectOk(const absl::Status& status) { EXPECT_EQ(status, absl::OkStatus()); }

MATCHER_P2(Fails, code, words, "") {
  return arg.code() == code && testing::Value(std::string(arg.message()), HasSubstr(words));
}

class NcclFailuresTest : public testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<NcclCommunicator> communicator;
    GroupId world;
    cudaStream_t stream = nullptr;
    float* data = nullptr;

    absl::Status AllReduce(int64_t count = 16) const {
      return communicator->Issue({.kind = OpKind::kAllReduce,
                                  .group = world,
                                  .type = DataType::kF32,
                                  .count = count,
                                  .in = data,
                                  .out = data},
                                 stream);
    }
    // After an abort: the stream ends what it was given.
    void ExpectStreamEnds() const { STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream)); }
  };

  void SetUp() override { standin::Reset({.device_count = 2}); }
  void TearDown() override { EXPECT_THAT(standin::TakeFindings(), IsEmpty()); }

  static void OnThreads(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (const int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        STRATA_EXPECT_CUDA(cudaSetDevice(rank));
        body(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Two ranks with a group of both.
  void OnRanks(const std::function<void(Rank&)>& body, absl::Duration timeout = kLong) {
    const auto bootstrap = LoopbackWorld(2);
    OnThreads([&](int number) {
      Rank rank;
      auto made = NcclCommunicator::Create({.rank = number,
                                            .size = 2,
                                            .device = number,
                                            .share = ShareOver(bootstrap[number].get()),
                                            .timeout = timeout});
      ASSERT_TRUE(made.ok());
      rank.communicator = *std::move(made);
      const auto world = rank.communicator->CreateGroup({0, 1});
      ASSERT_TRUE(world.ok()) << world.status();
      rank.world = *world;
      STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
      STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&rank.data), 1024));
      STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.data, 0, 1024, rank.stream));
      body(rank);
    });
  }
};

// ---- Members that never come

TEST_F(NcclFailuresTest, GroupWithoutAMember_IsGivenUpInTime_AndOthersGoOn) {
  auto made =
      NcclCommunicator::Create({.rank = 0,
                                .size = 2,
                                .share = [](absl::Span<const int>, std::string own) { return own; },
                                .timeout = kShort});
  ASSERT_TRUE(made.ok());
  const double begin = common::MonotonicClock().Now();
  EXPECT_THAT((*made)->CreateGroup({0, 1}).status(),
              Fails(StatusCode::kDeadlineExceeded, "forming a group of ranks 0 1"));
  EXPECT_LT(common::MonotonicClock().Now() - begin, 20);
  EXPECT_TRUE((*made)->CreateGroup({0}).ok());
  ExpectOk((*made)->Close(kLong));
}

TEST_F(NcclFailuresTest, GroupWithoutAMember_EndsWithAbortToo) {
  std::promise<void> begun;
  const auto share = [&](absl::Span<const int>, std::string own) {
    begun.set_value();
    return own;
  };
  auto made = NcclCommunicator::Create(
      {.rank = 0, .size = 2, .share = share, .timeout = absl::InfiniteDuration()});
  ASSERT_TRUE(made.ok());
  std::thread watch([&] {
    begun.get_future().wait();
    (*made)->Abort(absl::CancelledError("the agent says so"));
  });
  EXPECT_THAT((*made)->CreateGroup({0, 1}).status(),
              Fails(StatusCode::kCancelled, "the agent says so"));
  watch.join();
}

TEST_F(NcclFailuresTest, IdsThatCannotBeShared) {
  absl::StatusOr<std::string> shared = absl::UnavailableError("rank 1 has gone");
  auto made = NcclCommunicator::Create(
      {.rank = 0, .size = 2, .share = [&](absl::Span<const int> ranks, const std::string& own) {
         EXPECT_THAT(ranks, testing::ElementsAre(0, 1));
         EXPECT_EQ(own.size(), 128);
         return shared;
       }});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->CreateGroup({0, 1}).status(), shared.status());
  shared = "short";
  EXPECT_THAT((*made)->CreateGroup({0, 1}).status(),
              Fails(StatusCode::kInvalidArgument, "128 bytes, 5 were shared"));
}

TEST_F(NcclFailuresTest, CopyThatAMemberDoesNotMake) {
  OnRanks(
      [](Rank& rank) {
        if (rank.communicator->rank() == 1) return;
        EXPECT_THAT(rank.communicator->Duplicate(rank.world).status(),
                    Fails(StatusCode::kDeadlineExceeded, "a member is late, dead"));
      },
      kShort);
}

// ---- Members that die or hang

TEST_F(NcclFailuresTest, MemberThatIssuesNothing_IsWaitedForUntilTheDeadline) {
  OnRanks([](Rank& rank) {
    if (rank.communicator->rank() == 1) return;
    ExpectOk(rank.AllReduce());
    const double begin = common::MonotonicClock().Now();
    const absl::Status status = rank.communicator->Wait(rank.stream, kShort);
    EXPECT_LT(common::MonotonicClock().Now() - begin, 20);
    EXPECT_THAT(status, AllOf(Fails(StatusCode::kDeadlineExceeded, "a stream of rank 0"),
                              Fails(StatusCode::kDeadlineExceeded,
                                    "group of ranks 0 1: 1 operations issued, the last "
                                    "all-reduce of 64 bytes")));
    rank.ExpectStreamEnds();
    EXPECT_EQ(rank.AllReduce(), status);
    EXPECT_EQ(rank.communicator->Check(), status);
    EXPECT_EQ(rank.communicator->Close(kLong), status);
    EXPECT_EQ(rank.communicator->CreateGroup({0}).status(), status);
  });
}

TEST_F(NcclFailuresTest, Abort_ByAnotherThread_EndsAWait) {
  OnRanks([](Rank& rank) {
    if (rank.communicator->rank() == 1) return;
    ExpectOk(rank.AllReduce());
    std::thread watch([&] {
      while (standin::DescribeWaits().empty()) std::this_thread::yield();
      rank.communicator->Abort(absl::AbortedError("another rank failed"));
    });
    EXPECT_THAT(rank.communicator->Wait(rank.stream, absl::InfiniteDuration()),
                Fails(StatusCode::kAborted, "another rank failed"));
    watch.join();
    rank.ExpectStreamEnds();
  });
}

TEST_F(NcclFailuresTest, MemberThatDoesNotClose) {
  OnRanks([](Rank& rank) {
    ExpectOk(rank.AllReduce());
    if (rank.communicator->rank() == 1) {
      ExpectOk(rank.communicator->Wait(rank.stream, kLong));
      return;
    }
    EXPECT_THAT(rank.communicator->Close(kShort),
                Fails(StatusCode::kDeadlineExceeded, "closing a group"));
  });
}

TEST_F(NcclFailuresTest, OperationThatNeverGetsOnItsStream) {
  OnRanks(
      [](Rank& rank) {
        // The first operation connects the members, who have lost each other.
        standin::SetPollsToIssue(1 << 30);
        EXPECT_THAT(rank.AllReduce(), Fails(StatusCode::kDeadlineExceeded, "issuing an operation"));
        rank.ExpectStreamEnds();
      },
      absl::Seconds(2));
}

// ---- Failures that are reported

TEST_F(NcclFailuresTest, AsynchronousError_EndsOperationsOfBothRanks) {
  OnRanks([](Rank& rank) {
    ExpectOk(rank.communicator->Check());
    if (rank.communicator->rank() == 1) {
      standin::FailCommunicators(1, ncclRemoteError);
      EXPECT_THAT(rank.communicator->Check(),
                  Fails(StatusCode::kUnavailable, "NCCL reports remote process exited"));
      EXPECT_THAT(rank.AllReduce(), Fails(StatusCode::kUnavailable, "remote process exited"));
      return;
    }
    ExpectOk(rank.AllReduce());
    EXPECT_THAT(rank.communicator->Wait(rank.stream, kShort),
                Fails(StatusCode::kDeadlineExceeded, "a member is late, dead"));
    rank.ExpectStreamEnds();
  });
}

TEST_F(NcclFailuresTest, CallThatFails_IsTheFailure_AsMembersNoLongerAgree) {
  OnRanks([](Rank& rank) {
    if (rank.communicator->rank() == 1) return;
    standin::FailCall("ncclAllReduce", 1, cudaErrorUnknown);
    const absl::Status status = rank.AllReduce();
    EXPECT_THAT(status, Fails(StatusCode::kInternal, "NCCL reports unhandled cuda error"));
    EXPECT_EQ(rank.AllReduce(), status);
  });
}

// Otherwise who waits for a stream would take its end for success.
TEST_F(NcclFailuresTest, Failures_LetStreamsGoOnWithAbortOnly) {
  const auto check = [](Rank& rank) { return rank.communicator->Check(); };
  const auto issue = [](Rank& rank) {
    standin::FailCall("ncclAllReduce", 1, cudaErrorUnknown);
    return rank.AllReduce();
  };
  for (const auto& fail : std::vector<std::function<absl::Status(Rank&)>>{check, issue}) {
    standin::Reset({.device_count = 2});
    OnRanks([&](Rank& rank) {
      if (rank.communicator->rank() == 1) return;
      ExpectOk(rank.AllReduce());
      standin::FailCommunicators(0, ncclRemoteError);
      const absl::Status status = fail(rank);
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(rank.communicator->Check(), status);
      while (cudaStreamQuery(rank.stream) == cudaErrorNotReady &&
             standin::DescribeWaits().empty()) {
      }
      EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
      rank.communicator->Abort(absl::AbortedError("comes later"));
      rank.ExpectStreamEnds();
      EXPECT_EQ(rank.AllReduce(), status);
    });
  }
}

TEST_F(NcclFailuresTest, DeviceThatFails_EndsTheWait) {
  OnRanks([](Rank& rank) {
    if (rank.communicator->rank() == 1) return;
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.stream));
    standin::FailOperation(1, cudaErrorECCUncorrectable);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.data, 0, 4, rank.stream));
    EXPECT_THAT(rank.communicator->Wait(rank.stream, kLong),
                Fails(StatusCode::kInternal, "cudaErrorECCUncorrectable"));
  });
}

}  // namespace
}  // namespace strata::collectives
