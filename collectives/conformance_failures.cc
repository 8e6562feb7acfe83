// The half of the suite about what goes wrong: cancellation, members that disagree, refused
// operations, and what the ring shows of a rank that lags.
#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/conformance.h"
#include "collectives/operation_ring.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

TEST_P(ConformanceTest,
       Cancel_WhileWaitingForAPeerThatNeverPosts_FailsEveryOperationWithItsStatus) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group}));
    // Large enough for a transport that waits for the receiver, and there for as long as the rank:
    // one that has not heard of the cancellation yet may still read from one that has.
    thread_local std::vector<float> in(1 << 20), out(1 << 20);
    std::vector<OperationId> ids;
    Scratch scratch(OpKind::kAllReduce, DataType::kF32, in.size(), communicator.size());
    if (communicator.rank() != 0) {
      ASSIGN_OR_RETURN(const OperationId reduce,
                       communicator.Post({.kind = OpKind::kAllReduce,
                                          .group = group,
                                          .type = DataType::kF32,
                                          .count = static_cast<int64_t>(in.size()),
                                          .in = in.data(),
                                          .out = out.data(),
                                          .scratch = scratch.data(),
                                          .scratch_bytes = scratch.bytes()}));
      ids.push_back(reduce);
    } else {
      // Rank 0 waits for something else.
      ASSIGN_OR_RETURN(const OperationId receive, communicator.Post({.kind = OpKind::kReceive,
                                                                     .group = group,
                                                                     .count = 4,
                                                                     .out = out.data(),
                                                                     .peer = 1}));
      ids.push_back(receive);
    }
    std::thread other(
        [&] { communicator.Cancel(absl::DeadlineExceededError("stop was asked for")); });
    const absl::Status waited = Finish(communicator, ids);
    other.join();
    if (waited != absl::DeadlineExceededError("stop was asked for"))
      return Differs(waited.ToString());
    const auto later = communicator.Post({.kind = OpKind::kBarrier, .group = group});
    if (later.status() != waited) return Differs(later.status().ToString());
    communicator.Cancel(absl::InternalError("too late"));
    if (communicator.Post({.kind = OpKind::kBarrier, .group = group}).status() != waited) {
      return Differs("the first Cancel counts");
    }
    return absl::OkStatus();
  };
  for (const int size : {2, 4}) {
    for (const absl::Status& status : GetParam().run(size, body))
      EXPECT_TRUE(status.ok()) << status;
  }
}

// Ranks 0 and 1 post different operations; returns what they got.
std::vector<absl::Status> Disagree(const Backend& backend, const Operation& first,
                                   const Operation& second) {
  return backend.run(2, [&](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group}));
    std::vector<double> in(4096), out(8192);
    Scratch scratch(OpKind::kReduceScatter, DataType::kF64, 4096, 2);
    Operation operation = communicator.rank() == 0 ? first : second;
    operation.group = group;
    operation.in = in.data();
    operation.out = out.data();
    operation.scratch = scratch.data();
    operation.scratch_bytes = scratch.bytes();
    return RunOperation(communicator, operation);
  });
}

void ExpectDisagreement(const Backend& backend, const Operation& first, const Operation& second) {
  const std::vector<absl::Status> results = Disagree(backend, first, second);
  int named = 0;
  for (const absl::Status& status : results) {
    const bool names = absl::StrContains(status.message(), " 1 of group 0 (world ranks 0, 1)") &&
                       absl::StrContains(status.message(), "disagree");
    named += status.code() == absl::StatusCode::kFailedPrecondition && names;
  }
  EXPECT_GE(named, 1) << OpName(first.kind) << " against " << OpName(second.kind) << ": "
                      << results[0] << " | " << results[1];
}

TEST_P(ConformanceTest, Members_AtDifferentOperationsOrSizes_FailWithGroupSequenceAndRanks) {
  const Operation gather = {.kind = OpKind::kAllGather, .type = DataType::kF32, .count = 100};
  Operation longer = gather;
  longer.count = 101;
  Operation large = gather;
  large.count = 4000;
  Operation bytes = gather;
  bytes.type = DataType::kBytes;
  bytes.count = 400;
  const Operation reduce = {.kind = OpKind::kAllReduce, .type = DataType::kF32, .count = 100};
  const Operation barrier = {.kind = OpKind::kBarrier};
  const Operation broadcast = {
      .kind = OpKind::kBroadcast, .type = DataType::kF32, .count = 100, .peer = 1};
  ExpectDisagreement(GetParam(), gather, longer);
  ExpectDisagreement(GetParam(), gather, large);
  ExpectDisagreement(GetParam(), gather, bytes);
  ExpectDisagreement(GetParam(), gather, reduce);
  ExpectDisagreement(GetParam(), barrier, reduce);
  ExpectDisagreement(GetParam(), barrier, broadcast);
  ExpectDisagreement(GetParam(), broadcast, gather);
}

TEST_P(ConformanceTest, Receive_OfAnotherLength_FailsAndWritesNothingBeyondItsRoom) {
  for (const int64_t sent : {3, 5, 100'000}) {
    const auto results = GetParam().run(2, [sent](Communicator& communicator) -> absl::Status {
      ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
      const bool sends = communicator.rank() == 0;
      std::vector<char> data(sends ? sent : 64, sends ? 'x' : '-');
      const absl::Status status =
          RunOperation(communicator, {.kind = sends ? OpKind::kSend : OpKind::kReceive,
                                      .group = group,
                                      .count = sends ? sent : 4,
                                      .in = sends ? data.data() : nullptr,
                                      .out = sends ? nullptr : data.data(),
                                      .peer = 1 - communicator.rank()});
      if (!sends && std::count(data.begin() + 4, data.end(), '-') != 60)
        return Differs("memory beyond the room");
      return status;
    });
    EXPECT_EQ(results[1].code(), absl::StatusCode::kFailedPrecondition) << results[1];
    EXPECT_TRUE(absl::StrContains(results[1].message(), "ranks 1 and 0 disagree")) << results[1];
  }
}

TEST_P(ConformanceTest, Post_WithFieldsThatCannotBe_IsRefusedAndChangesNothing) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    alignas(64) double data[64] = {};
    alignas(64) double scratch[8 * 64] = {};
    const Operation good = {.kind = OpKind::kAllReduce,
                            .group = group,
                            .type = DataType::kF64,
                            .count = 8,
                            .in = data,
                            .out = data + 8,
                            .scratch = scratch,
                            .scratch_bytes = sizeof(scratch)};
    std::vector<Operation> bad(8, good);
    bad[0].group = GroupId{7};
    bad[1].type = DataType::kBytes;
    bad[2].count = -1;
    bad[3].in = nullptr;
    bad[4].out = reinterpret_cast<char*>(data) + 4;
    bad[5].scratch_bytes = 63;
    bad[6].scratch = scratch + 1;
    bad[7] = {.kind = OpKind::kSend, .group = group, .peer = communicator.rank()};
    for (size_t i = 0; i < bad.size(); ++i) {
      const auto id = communicator.Post(bad[i]);
      if (id.status().code() != absl::StatusCode::kInvalidArgument)
        return Differs(absl::StrCat("case ", i));
    }
    for (const std::vector<int>& ranks :
         std::vector<std::vector<int>>{{}, {5}, {0, 0, 1}, {0, 1, 9}, {-1, 0, 1}}) {
      if (communicator.CreateGroup(ranks).status().code() != absl::StatusCode::kInvalidArgument) {
        return Differs("a list of ranks that cannot be");
      }
    }
    const auto unknown = communicator.Test({.slot = 3, .generation = 9});
    if (unknown.status().code() != absl::StatusCode::kFailedPrecondition)
      return Differs("an id that is none");
    return RunOperation(communicator, good);
  };
  for (const absl::Status& status : GetParam().run(2, body)) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, Post_MoreThanTheBound_IsResourceExhaustedUntilOneIsTested) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    std::vector<OperationId> ids;
    absl::StatusOr<OperationId> id = OperationId{};
    while ((id = communicator.Post({.kind = OpKind::kBarrier, .group = group})).ok())
      ids.push_back(*id);
    if (id.status().code() != absl::StatusCode::kResourceExhausted) return id.status();
    if (ids.size() != 64) return Differs(absl::StrCat(ids.size(), " in flight"));
    RETURN_IF_ERROR(Finish(communicator, ids));
    return RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group});
  };
  for (const absl::Status& status : GetParam().run(2, body)) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, Wake_BeforeOrDuringWait_EndsIt) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    communicator.Wake();
    communicator.Wait(absl::Hours(10));
    std::atomic<bool> woken = false;
    std::thread other([&] {
      woken = true;
      communicator.Wake();
    });
    while (!woken) communicator.Wait(absl::Hours(10));
    other.join();
    return absl::OkStatus();
  };
  for (const absl::Status& status : GetParam().run(1, body)) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, Ring_WhileOnePeerLags_ShowsWhichSequenceEveryRankIsAt) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    alignas(64) std::byte memory[2048];
    ASSIGN_OR_RETURN(OperationRing ring, OperationRing::Create(memory, 16));
    communicator.SetRing(&ring);
    const Operation barrier = {.kind = OpKind::kBarrier, .group = group};
    RETURN_IF_ERROR(RunOperation(communicator, barrier));
    // One message tells rank 0 that rank 1 has looked at its ring; until then rank 0 lags.
    const Operation message = {.kind = communicator.rank() == 0 ? OpKind::kReceive : OpKind::kSend,
                               .group = group,
                               .peer = 1 - communicator.rank()};
    Operation empty = message;
    if (communicator.rank() == 0) RETURN_IF_ERROR(RunOperation(communicator, empty));
    ASSIGN_OR_RETURN(const OperationId id, communicator.Post(barrier));
    ASSIGN_OR_RETURN(const auto records, ReadOperations(memory));
    if (communicator.rank() == 1) {
      if (records.size() != 2) return Differs("two operations");
      const OperationRecord& done = records[0];
      const OperationRecord& waiting = records[1];
      if (done.sequence != 0 || done.state != 1 || done.end_ns < done.begin_ns)
        return Differs("the first barrier");
      if (waiting.sequence != 1 || waiting.state != 0 || waiting.end_ns != 0 ||
          waiting.peer != -1 || waiting.op != static_cast<uint32_t>(OpKind::kBarrier) ||
          waiting.group != group.value) {
        return Differs("the second barrier");
      }
      RETURN_IF_ERROR(RunOperation(communicator, empty));
    }
    RETURN_IF_ERROR(Finish(communicator, {id}));
    communicator.SetRing(nullptr);
    return absl::OkStatus();
  };
  for (const absl::Status& status : GetParam().run(2, body)) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace strata::collectives
