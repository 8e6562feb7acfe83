#include "collectives/conformance.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "collectives/tree_sum.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace strata::collectives {

absl::Status Differs(const std::string& what) { return absl::DataLossError(what); }

void ConformanceTest::RunAll(const RankBody& body) {
  for (const int size : GetParam().sizes) {
    const std::vector<absl::Status> results = GetParam().run(size, body);
    ASSERT_EQ(results.size(), static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(results[rank].ok()) << "rank " << rank << " of " << size << ": " << results[rank];
    }
  }
}

absl::StatusOr<GroupId> WorldGroup(Communicator& communicator) {
  std::vector<int> ranks(communicator.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator.CreateGroup(ranks);
}

absl::Status Finish(Communicator& communicator, absl::Span<const OperationId> ids) {
  for (const OperationId id : ids) {
    for (;;) {
      const bool more = communicator.Progress();
      ASSIGN_OR_RETURN(const bool done, communicator.Test(id));
      if (done) break;
      if (!more) communicator.Wait(absl::Milliseconds(200));
    }
  }
  return absl::OkStatus();
}

namespace {

template <typename T>
constexpr DataType kTypeOf = sizeof(T) == 4 ? DataType::kF32 : DataType::kF64;

// Values whose sum depends on the order of addition: a sign, 24 random bits and one of 24 scales.
template <typename T>
T ValueAt(int rank, int64_t index) {
  uint64_t bits = (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 31) * 0x94d049bb133111ebu;
  bits ^= bits >> 29;
  const T scale = static_cast<T>(uint32_t{1} << (bits >> 40) % 24) / 4096;
  return (static_cast<T>(bits & 0xffffff) / 0x1000000 - T{0.5}) * scale;
}

template <typename T>
std::vector<T> ValuesOf(int rank, int64_t count) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = ValueAt<T>(rank, i);
  return values;
}

// The tree written as the definition reads: pairs (2i, 2i + 1), an odd last one passes up.
template <typename T>
T TreeReference(int ranks, int64_t index) {
  T level[8];
  for (int rank = 0; rank < ranks; ++rank) level[rank] = ValueAt<T>(rank, index);
  for (int nodes = ranks; nodes > 1; nodes = (nodes + 1) / 2) {
    for (int i = 0; i < nodes / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (nodes % 2 == 1) level[nodes / 2] = level[nodes - 1];
  }
  return level[0];
}

template <typename T>
bool SameBits(T a, T b) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits are meant, of zeros and NaN too
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <typename T>
absl::Status ExpectTree(const T* sums, int64_t first, int64_t count, int ranks, const char* what) {
  for (int64_t i = 0; i < count; ++i) {
    const T expected = TreeReference<T>(ranks, first + i);
    if (!SameBits(sums[i], expected)) {
      return Differs(absl::StrCat(what, " of ", count, ": element ", first + i, " is ", sums[i],
                                  ", not ", expected));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status CheckAllReduce(Communicator& communicator, GroupId group, int64_t count,
                            bool in_place) {
  const int n = communicator.size();
  std::vector<T> in = ValuesOf<T>(communicator.rank(), count);
  std::vector<T> out(in_place ? 0 : count, T{-1});
  T* const sums = in_place ? in.data() : out.data();
  Scratch scratch(OpKind::kAllReduce, kTypeOf<T>, count, n);
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kAllReduce,
                                              .group = group,
                                              .type = kTypeOf<T>,
                                              .count = count,
                                              .in = in.data(),
                                              .out = sums,
                                              .scratch = scratch.data(),
                                              .scratch_bytes = scratch.bytes()}));
  if (!in_place && in != ValuesOf<T>(communicator.rank(), count))
    return Differs("all-reduce wrote to its input");
  return ExpectTree(sums, 0, count, n, "all-reduce");
}

template <typename T>
absl::Status CheckReduceScatter(Communicator& communicator, GroupId group, int64_t count,
                                bool in_place) {
  const int n = communicator.size();
  std::vector<T> in = ValuesOf<T>(communicator.rank(), n * count);
  std::vector<T> out(in_place ? 0 : count, T{-1});
  T* const sums = in_place ? in.data() + communicator.rank() * count : out.data();
  Scratch scratch(OpKind::kReduceScatter, kTypeOf<T>, count, n);
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kReduceScatter,
                                              .group = group,
                                              .type = kTypeOf<T>,
                                              .count = count,
                                              .in = in.data(),
                                              .out = sums,
                                              .scratch = scratch.data(),
                                              .scratch_bytes = scratch.bytes()}));
  if (!in_place && in != ValuesOf<T>(communicator.rank(), n * count)) {
    return Differs("reduce-scatter wrote to its input");
  }
  return ExpectTree(sums, communicator.rank() * count, count, n, "reduce-scatter");
}

template <typename T>
constexpr DataType kNarrowTypeOf =
    std::is_same_v<T, kernels::BFloat16> ? DataType::kBF16 : DataType::kF16;

// Sums of 16-bit types: added in float in the tree, rounded once.
template <typename T>
absl::Status CheckNarrowSums(Communicator& communicator, GroupId group, int64_t count) {
  const int n = communicator.size();
  const auto numbers = [&](int rank) {
    std::vector<T> values(n * count);
    for (int64_t i = 0; i < n * count; ++i) {
      values[i] = kernels::FromFloat<T>(ValueAt<float>(rank, i));
    }
    return values;
  };
  std::vector<std::vector<T>> all;
  for (int rank = 0; rank < n; ++rank) all.push_back(numbers(rank));
  std::vector<T*> leaves;
  for (std::vector<T>& values : all) leaves.push_back(values.data());
  std::vector<T> expected(n * count), in = numbers(communicator.rank()), out(n * count);
  NarrowTreeSum<T>(leaves, 0, n * count, expected.data());
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter}) {
    const bool scatters = kind == OpKind::kReduceScatter;
    const int64_t of = scatters ? count : n * count;
    Scratch scratch(kind, kNarrowTypeOf<T>, of, n);
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = kind,
                                                .group = group,
                                                .type = kNarrowTypeOf<T>,
                                                .count = of,
                                                .in = in.data(),
                                                .out = out.data(),
                                                .scratch = scratch.data(),
                                                .scratch_bytes = scratch.bytes()}));
    const T* const own = expected.data() + (scatters ? communicator.rank() * count : 0);
    for (int64_t i = 0; i < of; ++i) {
      if (out[i].bits == own[i].bits) continue;
      return Differs(absl::StrCat(OpName(kind), " of ", of, " numbers of 16 bits: element ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAllGather(Communicator& communicator, GroupId group, int64_t count,
                            bool in_place) {
  const int n = communicator.size();
  std::vector<float> in = ValuesOf<float>(communicator.rank(), count);
  std::vector<float> out(n * count, -1);
  float* const own = out.data() + communicator.rank() * count;
  if (in_place) std::copy(in.begin(), in.end(), own);
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kAllGather,
                                              .group = group,
                                              .type = DataType::kF32,
                                              .count = count,
                                              .in = in_place ? own : in.data(),
                                              .out = out.data()}));
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<float> expected = ValuesOf<float>(rank, count);
    if (!std::equal(expected.begin(), expected.end(), out.begin() + rank * count)) {
      return Differs(absl::StrCat("all-gather of ", count, ": the part of rank ", rank));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAllToAll(Communicator& communicator, GroupId group, int64_t count) {
  const int n = communicator.size(), self = communicator.rank();
  const std::vector<float> in = ValuesOf<float>(self, n * count);
  std::vector<float> out(n * count, -1);
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kAllToAll,
                                              .group = group,
                                              .type = DataType::kF32,
                                              .count = count,
                                              .in = in.data(),
                                              .out = out.data()}));
  if (in != ValuesOf<float>(self, n * count)) return Differs("all-to-all wrote to its input");
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<float> theirs = ValuesOf<float>(rank, n * count);
    if (!std::equal(out.begin() + rank * count, out.begin() + (rank + 1) * count,
                    theirs.begin() + self * count)) {
      return Differs(absl::StrCat("all-to-all of ", count, ": the part of rank ", rank));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRotate(Communicator& communicator, GroupId group, int64_t count) {
  const int n = communicator.size(), self = communicator.rank();
  const std::vector<float> in = ValuesOf<float>(self, count);
  std::vector<float> out(count, -1);
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kRotate,
                                              .group = group,
                                              .type = DataType::kF32,
                                              .count = count,
                                              .in = in.data(),
                                              .out = out.data()}));
  if (out != ValuesOf<float>((self + n - 1) % n, count)) {
    return Differs(absl::StrCat("rotate of ", count));
  }
  return absl::OkStatus();
}

absl::Status CheckBroadcasts(Communicator& communicator, GroupId group, int64_t count) {
  for (int root = 0; root < communicator.size(); ++root) {
    std::vector<double> data(count, -1);
    if (root == communicator.rank()) data = ValuesOf<double>(root, count);
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kBroadcast,
                                                .group = group,
                                                .type = DataType::kF64,
                                                .count = count,
                                                .out = data.data(),
                                                .peer = root}));
    if (data != ValuesOf<double>(root, count))
      return Differs(absl::StrCat("broadcast of ", count, " from ", root));
  }
  return absl::OkStatus();
}

// Everyone sends to the next and receives from the one before, two messages with tags that arrive
// crossed.
absl::Status CheckRing(Communicator& communicator, GroupId group, int64_t count) {
  const int n = communicator.size();
  if (n == 1) return absl::OkStatus();
  const int next = (communicator.rank() + 1) % n;
  const int previous = (communicator.rank() + n - 1) % n;
  const std::vector<float> first = ValuesOf<float>(communicator.rank(), count);
  const std::vector<float> second = ValuesOf<float>(100 + communicator.rank(), count);
  std::vector<float> got_first(count), got_second(count);
  std::vector<OperationId> ids;
  for (const auto& [kind, in, out, peer, tag] :
       {std::tuple{OpKind::kReceive, (const float*)nullptr, got_second.data(), previous, 1023u},
        std::tuple{OpKind::kSend, first.data(), (float*)nullptr, next, 0u},
        std::tuple{OpKind::kSend, second.data(), (float*)nullptr, next, 1023u},
        std::tuple{OpKind::kReceive, (const float*)nullptr, got_first.data(), previous, 0u}}) {
    ASSIGN_OR_RETURN(const OperationId id, communicator.Post({.kind = kind,
                                                              .group = group,
                                                              .type = DataType::kF32,
                                                              .count = count,
                                                              .in = in,
                                                              .out = out,
                                                              .peer = peer,
                                                              .tag = tag}));
    ids.push_back(id);
  }
  RETURN_IF_ERROR(Finish(communicator, ids));
  if (got_first != ValuesOf<float>(previous, count)) return Differs("message with tag 0");
  if (got_second != ValuesOf<float>(100 + previous, count)) return Differs("message with tag 1023");
  return absl::OkStatus();
}

absl::Status CheckEverything(Communicator& communicator, GroupId group, int64_t count) {
  for (const bool in_place : {false, true}) {
    RETURN_IF_ERROR(CheckAllGather(communicator, group, count, in_place));
    RETURN_IF_ERROR(CheckAllReduce<float>(communicator, group, count, in_place));
    RETURN_IF_ERROR(CheckReduceScatter<float>(communicator, group, count, in_place));
  }
  RETURN_IF_ERROR(CheckAllReduce<double>(communicator, group, count, false));
  RETURN_IF_ERROR(CheckReduceScatter<double>(communicator, group, count, true));
  RETURN_IF_ERROR(CheckNarrowSums<kernels::BFloat16>(communicator, group, count));
  RETURN_IF_ERROR(CheckNarrowSums<kernels::Float16>(communicator, group, count));
  RETURN_IF_ERROR(CheckBroadcasts(communicator, group, count));
  RETURN_IF_ERROR(CheckRing(communicator, group, count));
  RETURN_IF_ERROR(CheckAllToAll(communicator, group, count));
  RETURN_IF_ERROR(CheckRotate(communicator, group, count));
  return RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group});
}

TEST_P(ConformanceTest, EveryOperation_SmallAndOddSizes_MovesAndAddsTheRightElements) {
  RunAll([](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    // Around the boundary between the two forms of all-reduce (2048 floats), and pieces that end up
    // empty.
    for (const int64_t count : {0, 1, 7, 17, 1000, 2047, 2048, 2049, 10'001}) {
      RETURN_IF_ERROR(CheckEverything(communicator, group, count));
    }
    return absl::OkStatus();
  });
}

TEST_P(ConformanceTest, EveryOperation_MebiElementsAndThree_MovesAndAddsTheRightElements) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    constexpr int64_t kCount = (1 << 20) + 3;
    RETURN_IF_ERROR(CheckAllGather(communicator, group, kCount, false));
    RETURN_IF_ERROR(CheckAllReduce<float>(communicator, group, kCount, true));
    RETURN_IF_ERROR(CheckReduceScatter<float>(communicator, group, kCount, false));
    RETURN_IF_ERROR(CheckBroadcasts(communicator, group, kCount));
    return CheckRing(communicator, group, kCount);
  };
  for (const int size : {2, 3}) {
    for (const absl::Status& status : GetParam().run(size, body))
      EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(ConformanceTest, TreeReference_FourRanks_DiffersFromLeftToRight) {
  int differing = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    float left = ValueAt<float>(0, i);
    for (int rank = 1; rank < 4; ++rank) left += ValueAt<float>(rank, i);
    differing += !SameBits(left, TreeReference<float>(4, i));
  }
  EXPECT_GT(differing, 50);  // so the other tests can tell the orders apart
}

TEST_P(ConformanceTest, AllReduce_TwentyRepetitionsWithRandomDelays_GivesTheSameBits) {
  RunAll([](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    for (int repetition = 0; repetition < 20; ++repetition) {
      const auto words = common::Philox(communicator.rank(), repetition, 7);
      std::this_thread::sleep_for(std::chrono::microseconds(words[0] % 2000));
      RETURN_IF_ERROR(CheckAllReduce<float>(communicator, group, 5001, false));
    }
    return absl::OkStatus();
  });
}

// The subset of ranks r with r % stride == this rank % stride.
std::vector<int> Stride(const Communicator& communicator, int stride) {
  std::vector<int> ranks;
  for (int rank = communicator.rank() % stride; rank < communicator.size(); rank += stride)
    ranks.push_back(rank);
  return ranks;
}

struct Gather {
  GroupId group;
  std::vector<int> ranks;
  int round;
  std::vector<int64_t> in, out;
};

absl::Status CheckGather(const Gather& gather) {
  for (size_t j = 0; j < gather.ranks.size(); ++j) {
    for (size_t k = 0; k < gather.in.size(); ++k) {
      const int64_t expected =
          gather.group.value * 1'000'000 + gather.ranks[j] * 10'000 + gather.round * 100 + k;
      if (gather.out[j * gather.in.size() + k] != expected) {
        return Differs(
            absl::StrCat("round ", gather.round, " of group ", gather.group.value, ", member ", j));
      }
    }
  }
  return absl::OkStatus();
}

TEST_P(ConformanceTest, SeveralGroups_OperationsOverlapping_DoNotMix) {
  RunAll([](Communicator& communicator) -> absl::Status {
    std::vector<int> reversed = Stride(communicator, 1);
    std::reverse(reversed.begin(), reversed.end());
    // The same ranks twice, in another order, and subsets.
    std::vector<std::vector<int>> lists = {Stride(communicator, 1), Stride(communicator, 1),
                                           reversed, Stride(communicator, 2)};
    std::vector<GroupId> groups;
    for (const auto& ranks : lists) {
      ASSIGN_OR_RETURN(const GroupId group, communicator.CreateGroup(ranks));
      groups.push_back(group);
    }
    std::vector<Gather> gathers;
    std::vector<OperationId> ids;
    for (int round = 0; round < 8; ++round) {
      for (size_t g = 0; g < groups.size(); ++g) {
        Gather& gather = gathers.emplace_back(Gather{groups[g], lists[g], round, {}, {}});
        gather.in.resize(20);
        gather.out.resize(20 * lists[g].size());
        std::iota(gather.in.begin(), gather.in.end(),
                  groups[g].value * 1'000'000 + communicator.rank() * 10'000 + round * 100);
      }
    }
    for (Gather& gather : gathers) {
      ASSIGN_OR_RETURN(const OperationId id,
                       communicator.Post({.kind = OpKind::kAllGather,
                                          .group = gather.group,
                                          .type = DataType::kBytes,
                                          .count = static_cast<int64_t>(gather.in.size()) * 8,
                                          .in = gather.in.data(),
                                          .out = gather.out.data()}));
      ids.push_back(id);
    }
    if (communicator.rank() % 2 == 1) std::reverse(ids.begin(), ids.end());
    RETURN_IF_ERROR(Finish(communicator, ids));
    for (const Gather& gather : gathers) RETURN_IF_ERROR(CheckGather(gather));
    return RunOperation(communicator, {.kind = OpKind::kBarrier, .group = groups[0]});
  });
}

TEST_P(ConformanceTest, ManyOperationsInFlight_OfAllKinds_AllFinish) {
  RunAll([](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    const int n = communicator.size();
    constexpr int64_t kCount = 40'000;
    constexpr int kRounds = 6;
    std::vector<std::vector<float>> in(kRounds), sums(kRounds), parts(kRounds), data(kRounds);
    std::vector<Scratch> scratch;
    std::vector<OperationId> ids;
    for (int round = 0; round < kRounds; ++round) {
      scratch.emplace_back(OpKind::kAllReduce, DataType::kF32, kCount, n);
      scratch.emplace_back(OpKind::kReduceScatter, DataType::kF32, kCount / n, n);
    }
    for (int round = 0; round < kRounds; ++round) {
      in[round] = ValuesOf<float>(communicator.rank(), kCount);
      sums[round].resize(kCount);
      parts[round].resize(kCount / n);
      data[round].assign(kCount, static_cast<float>(communicator.rank()));
      Operation op = {
          .group = group, .type = DataType::kF32, .in = in[round].data(), .peer = round % n};
      for (const OpKind kind :
           {OpKind::kAllReduce, OpKind::kBarrier, OpKind::kReduceScatter, OpKind::kBroadcast}) {
        Scratch& room = scratch[2 * round + (kind == OpKind::kReduceScatter)];
        op.kind = kind;
        op.count = kind == OpKind::kBarrier         ? 0
                   : kind == OpKind::kReduceScatter ? kCount / n
                                                    : kCount;
        op.out = kind == OpKind::kAllReduce       ? sums[round].data()
                 : kind == OpKind::kReduceScatter ? parts[round].data()
                                                  : data[round].data();
        op.scratch = room.data();
        op.scratch_bytes = room.bytes();
        ASSIGN_OR_RETURN(const OperationId id, communicator.Post(op));
        ids.push_back(id);
      }
    }
    RETURN_IF_ERROR(Finish(communicator, ids));
    for (int round = 0; round < kRounds; ++round) {
      RETURN_IF_ERROR(ExpectTree(sums[round].data(), 0, kCount, n, "all-reduce"));
      const int64_t part = kCount / n;
      RETURN_IF_ERROR(
          ExpectTree(parts[round].data(), communicator.rank() * part, part, n, "reduce-scatter"));
      if (data[round] != std::vector<float>(kCount, static_cast<float>(round % n)))
        return Differs("broadcast");
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace strata::collectives
