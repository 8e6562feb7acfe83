// Ranks that are threads, with NCCL's own API, for tests of its stand-in.
#ifndef STRATA_DEVICE_STANDIN_TESTING_NCCL_RANKS_H_
#define STRATA_DEVICE_STANDIN_TESTING_NCCL_RANKS_H_

#include <nccl.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "device/standin/nccl_standin.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

#define STRATA_EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess)

namespace strata::standin {

constexpr int kCount = 64;
constexpr size_t kBufferBytes = kCount * sizeof(float);

// One rank, on its device.
struct Rank {
  int rank = 0, size = 1;
  ncclComm_t comm = nullptr;
  cudaStream_t compute = nullptr, communication = nullptr;
  float *in = nullptr, *out = nullptr;  // size × kCount each; `in` is written on `compute`

  ncclResult_t AllReduce(size_t count = kCount, ncclDataType_t type = ncclFloat32) const {
    return ncclAllReduce(in, out, count, type, ncclSum, comm, communication);
  }
  ncclResult_t AllGather() const {
    return ncclAllGather(in, out, kCount, ncclFloat32, comm, communication);
  }
  // What `after` gets later comes after what `before` has now.
  static void Order(cudaStream_t before, cudaStream_t after) {
    cudaEvent_t event = nullptr;
    STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    static_cast<void>(cudaEventRecord(event, before));
    static_cast<void>(cudaStreamWaitEvent(after, event, 0));
    static_cast<void>(cudaEventDestroy(event));
  }
};

class NcclTest : public testing::Test {
 protected:
  using Body = std::function<void(Rank&)>;

  // Runs the ranks in one order of streams and returns what was found.
  static std::vector<Finding> Run(StreamOrder order, int size, const Body& body) {
    Reset({.stream_order = order, .device_count = size, .patience_seconds = 0.3});
    return RunRanks(size, body);
  }
  static std::vector<Finding> RunRanks(int size, const Body& body) {
    ncclUniqueId id;
    STRATA_EXPECT_NCCL(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int number = 0; number < size; ++number) {
      threads.emplace_back([&, number] { RunRank({.rank = number, .size = size}, id, body); });
    }
    for (std::thread& thread : threads) thread.join();
    return TakeFindings();
  }
  static void InEachOrder(const std::function<void(StreamOrder)>& run) {
    for (const StreamOrder order :
         {StreamOrder::kProgram, StreamOrder::kLatest, StreamOrder::kRandom}) {
      SCOPED_TRACE(testing::Message() << "stream order " << static_cast<int>(order));
      run(order);
    }
  }
  // In each order, a finding of this kind with these words, and no rank hangs.
  static void ExpectFound(int size, FindingKind kind, const std::vector<std::string>& words,
                          const Body& body) {
    InEachOrder([&](StreamOrder order) {
      std::vector<testing::Matcher<Finding>> all = {testing::Field(&Finding::kind, kind)};
      for (const std::string& word : words) {
        all.push_back(testing::Field(&Finding::text, testing::HasSubstr(word)));
      }
      EXPECT_THAT(Run(order, size, body), testing::Contains(testing::AllOfArray(all)));
    });
  }
  static void ExpectClean(int size, const Body& body) {
    InEachOrder(
        [&](StreamOrder order) { EXPECT_THAT(Run(order, size, body), testing::IsEmpty()); });
  }

  static void RunRank(Rank rank, const ncclUniqueId& id, const Body& body) {
    STRATA_EXPECT_CUDA(cudaSetDevice(rank.rank));
    for (cudaStream_t* stream : {&rank.compute, &rank.communication}) {
      STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (float** buffer : {&rank.in, &rank.out}) {
      STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(buffer), rank.size * kBufferBytes));
    }
    const std::vector<float> values(rank.size * kCount, static_cast<float>(rank.rank + 1));
    STRATA_EXPECT_CUDA(cudaMemcpyAsync(rank.in, values.data(), rank.size * kBufferBytes,
                                       cudaMemcpyHostToDevice, rank.compute));
    STRATA_EXPECT_NCCL(ncclCommInitRank(&rank.comm, rank.size, id, rank.rank));
    body(rank);
    static_cast<void>(cudaDeviceSynchronize());
  }
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_TESTING_NCCL_RANKS_H_
