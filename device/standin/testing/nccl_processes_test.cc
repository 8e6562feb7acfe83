// Ranks that are processes: what they do together, what disagrees, and who goes away.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "common/descriptor.h"
#include "device/standin/testing/nccl_ranks.h"

namespace strata::standin {
namespace {

using common::Descriptor;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  Descriptor out, in;
};

std::string ReadAll(int file) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

class NcclProcessesTest : public NcclTest {
 protected:
  // What each rank's process found, a line each.
  static std::vector<std::string> RunProcesses(StreamOrder order, int size, const Body& body,
                                               bool last_is_killed = false) {
    std::vector<Pipe> ids(size), found(size);
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      for (int other = 0; other < size; ++other) {
        if (other != rank) ids[other].out.Close();
      }
      Be({.rank = rank, .size = size}, order, ids, found[rank], body);
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < size; ++rank) {
      found[rank].in.Close();
      texts.push_back(ReadAll(found[rank].out.get()));
      int status = 0;
      EXPECT_EQ(waitpid(children[rank], &status, 0), children[rank]);
      const bool killed = last_is_killed && rank + 1 == size;
      EXPECT_EQ(status, killed ? SIGKILL : 0) << "rank " << rank;
    }
    return texts;
  }
  static void ExpectCleanProcesses(int size, const Body& body) {
    InEachOrder(
        [&](StreamOrder order) { EXPECT_THAT(RunProcesses(order, size, body), Each(IsEmpty())); });
  }

 private:
  [[noreturn]] static void Be(Rank rank, StreamOrder order, std::vector<Pipe>& ids, Pipe& found,
                              const Body& body) {
    Reset({.stream_order = order,
           .device_count = rank.size,
           .ranks_are_processes = true,
           .patience_seconds = 0.3});
    ncclUniqueId id{};
    if (rank.rank == 0) {
      STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
      for (const Pipe& pipe : ids) EXPECT_EQ(write(pipe.in.get(), &id, sizeof id), sizeof id);
    } else {
      EXPECT_EQ(read(ids[rank.rank].out.get(), &id, sizeof id), sizeof id);
    }
    RunRank(rank, id, body);
    std::string text;
    for (const Finding& finding : TakeFindings()) text += finding.text + "\n";
    EXPECT_EQ(write(found.in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
};

// Finalizes and destroys as all members do.
void Close(const Rank& rank) {
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
  STRATA_EXPECT_NCCL(ncclCommFinalize(rank.comm));
  STRATA_EXPECT_NCCL(ncclCommDestroy(rank.comm));
}

// On the communication stream, and so behind what it was given.
std::vector<float> ResultOf(const Rank& rank) {
  std::vector<float> values(static_cast<size_t>(rank.size) * kCount);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(values.data(), rank.out, values.size() * sizeof(float),
                                     cudaMemcpyDeviceToHost, rank.communication));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
  return values;
}

// ---- What they do together

TEST_F(NcclProcessesTest, EachCollectiveGivesWhatItSays) {
  ExpectCleanProcesses(3, [](Rank& rank) {
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.out, 0, 3 * kBufferBytes, rank.communication));
    STRATA_EXPECT_NCCL(rank.AllReduce());
    EXPECT_EQ(ResultOf(rank)[kCount - 1], 1 + 2 + 3);
    STRATA_EXPECT_NCCL(rank.AllGather());
    const std::vector<float> gathered = ResultOf(rank);
    EXPECT_EQ(gathered[0], 1);
    EXPECT_EQ(gathered[kCount], 2);
    EXPECT_EQ(gathered[3 * kCount - 1], 3);
    STRATA_EXPECT_NCCL(ncclReduceScatter(rank.in, rank.out, kCount, ncclFloat32, ncclSum, rank.comm,
                                         rank.communication));
    EXPECT_EQ(ResultOf(rank)[0], 1 + 2 + 3);
    STRATA_EXPECT_NCCL(
        ncclBroadcast(rank.in, rank.out, kCount, ncclFloat32, 2, rank.comm, rank.communication));
    EXPECT_EQ(ResultOf(rank)[0], 3);
    Close(rank);
  });
}

// Each sends to the next and receives from the one before.
void Rotate(const Rank& rank) {
  const int next = (rank.rank + 1) % rank.size, before = (rank.rank + rank.size - 1) % rank.size;
  STRATA_EXPECT_NCCL(ncclGroupStart());
  STRATA_EXPECT_NCCL(ncclSend(rank.in, kCount, ncclFloat32, next, rank.comm, rank.communication));
  STRATA_EXPECT_NCCL(
      ncclRecv(rank.out, kCount, ncclFloat32, before, rank.comm, rank.communication));
  STRATA_EXPECT_NCCL(ncclGroupEnd());
}

TEST_F(NcclProcessesTest, MessagesInGroupsPassEachOther) {
  ExpectCleanProcesses(3, [](Rank& rank) {
    Rank::Order(rank.compute, rank.communication);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(rank.out, 0, 3 * kBufferBytes, rank.communication));
    Rotate(rank);
    EXPECT_EQ(ResultOf(rank)[0], static_cast<float>((rank.rank + 2) % 3 + 1));
    Close(rank);
  });
}

TEST_F(NcclProcessesTest, MuchMoreThanASocketHolds) {
  ExpectCleanProcesses(2, [](Rank& rank) {
    constexpr size_t kMany = 1 << 20;
    float* values = nullptr;
    STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&values), kMany * sizeof(float)));
    STRATA_EXPECT_CUDA(cudaMemsetAsync(values, 0, kMany * sizeof(float), rank.communication));
    for (int i = 0; i < 3; ++i) {
      STRATA_EXPECT_NCCL(ncclAllReduce(values, values, kMany, ncclFloat32, ncclSum, rank.comm,
                                       rank.communication));
    }
    Close(rank);
  });
}

// Rank 1's host waits for nothing of its device; rank 0 gets what it is sent all the same.
TEST_F(NcclProcessesTest, ADeviceGoesOnWithoutItsHost) {
  InEachOrder([](StreamOrder order) {
    const Pipe done;
    EXPECT_THAT(RunProcesses(order, 2,
                             [&](Rank& rank) {
                               Rank::Order(rank.compute, rank.communication);
                               STRATA_EXPECT_NCCL(rank.AllReduce());
                               char byte = 0;
                               if (rank.rank == 0) {
                                 STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
                                 EXPECT_EQ(write(done.in.get(), &byte, 1), 1);
                               } else {
                                 EXPECT_EQ(read(done.out.get(), &byte, 1), 1);
                               }
                               Close(rank);
                             }),
                Each(IsEmpty()));
  });
}

// ---- Mistakes

TEST_F(NcclProcessesTest, EventBeforeACollectiveMissing_OnOneRankOnly) {
  InEachOrder([](StreamOrder order) {
    const auto found = RunProcesses(order, 2, [](Rank& rank) {
      if (rank.rank == 0) Rank::Order(rank.compute, rank.communication);
      STRATA_EXPECT_NCCL(rank.AllReduce());
    });
    EXPECT_THAT(found[0], IsEmpty());
    EXPECT_THAT(found[1],
                AllOf(HasSubstr("race: "), HasSubstr("all-reduce of 64 × f32 by rank 1")));
  });
}

TEST_F(NcclProcessesTest, CountsThatDiffer_AreNamedOnBothSides) {
  InEachOrder([](StreamOrder order) {
    EXPECT_THAT(RunProcesses(order, 2,
                             [](Rank& rank) {
                               Rank::Order(rank.compute, rank.communication);
                               STRATA_EXPECT_NCCL(rank.AllReduce(rank.rank == 1 ? 32 : 64));
                               STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
                             }),
                Each(AllOf(HasSubstr("members disagree about collective #0 of communicator #1"),
                           HasSubstr("rank 0 of communicator #1 issues all-reduce of 64 × f32"),
                           HasSubstr("rank 1 of communicator #1 issues all-reduce of 32 × f32"))));
  });
}

TEST_F(NcclProcessesTest, OrderOfCollectivesSwapped) {
  EXPECT_THAT(RunProcesses(StreamOrder::kRandom, 2,
                           [](Rank& rank) {
                             Rank::Order(rank.compute, rank.communication);
                             if (rank.rank == 1) {
                               STRATA_EXPECT_NCCL(rank.AllGather());
                             }
                             STRATA_EXPECT_NCCL(rank.AllReduce());
                             if (rank.rank == 0) {
                               STRATA_EXPECT_NCCL(rank.AllGather());
                             }
                             STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
                           }),
              Each(AllOf(HasSubstr("members disagree"), HasSubstr("issues all-gather"))));
}

TEST_F(NcclProcessesTest, OperationLeftOut_IsNamedWhenTheOtherRankIsThrough) {
  InEachOrder([](StreamOrder order) {
    RunProcesses(order, 2, [](Rank& rank) {
      Rank::Order(rank.compute, rank.communication);
      if (rank.rank == 0) {
        STRATA_EXPECT_NCCL(rank.AllReduce());
        std::vector<Finding> found;
        while (found.empty()) {
          found = TakeFindings();
          std::this_thread::yield();
        }
        EXPECT_THAT(found[0].text, HasSubstr("rank 0 of communicator #1 issues collective #0 of "
                                             "communicator #1, rank 1 of communicator #1 finalizes "
                                             "without it"));
      } else {
        static_cast<void>(ncclCommFinalize(rank.comm));  // waits for rank 0, as long as it may
      }
      STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
    });
  });
}

// ---- Who goes away

void ExpectRemoteError(const Rank& rank) {
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) {
    STRATA_EXPECT_NCCL(ncclCommGetAsyncError(rank.comm, &state));
    std::this_thread::yield();
  }
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(rank.comm), HasSubstr("rank 1 of communicator #1 has gone"));
  EXPECT_EQ(cudaStreamQuery(rank.communication), cudaErrorNotReady);
  STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(rank.communication));
}

// Rank 1 goes once rank 0 has begun what it has no part in.
void LoseRankOne(const Rank& rank, const Pipe& begun, const std::function<void()>& go) {
  Rank::Order(rank.compute, rank.communication);
  char byte = 0;
  if (rank.rank == 1) {
    EXPECT_EQ(read(begun.out.get(), &byte, 1), 1);
    return go();
  }
  STRATA_EXPECT_NCCL(rank.AllReduce());
  EXPECT_EQ(write(begun.in.get(), &byte, 1), 1);
  ExpectRemoteError(rank);
}

TEST_F(NcclProcessesTest, ARankThatIsKilled_IsAnAsynchronousErrorOfOthers) {
  InEachOrder([](StreamOrder order) {
    const Pipe begun;
    const auto body = [&](Rank& rank) {
      LoseRankOne(rank, begun, [] { kill(getpid(), SIGKILL); });
    };
    EXPECT_THAT(RunProcesses(order, 2, body, /*last_is_killed=*/true), Each(IsEmpty()));
  });
}

TEST_F(NcclProcessesTest, ARankThatAborts_IsOneToo) {
  const Pipe begun;
  const auto body = [&](Rank& rank) {
    LoseRankOne(rank, begun, [&] { STRATA_EXPECT_NCCL(ncclCommAbort(rank.comm)); });
  };
  EXPECT_THAT(RunProcesses(StreamOrder::kRandom, 2, body), Each(IsEmpty()));
}

}  // namespace
}  // namespace strata::standin
