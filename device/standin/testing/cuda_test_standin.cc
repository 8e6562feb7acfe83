#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::standin {

void CudaTest::SetUp() { Reset(); }

namespace {

void WithEachOrder(int device_count, const std::function<void()>& run) {
  const Options orders[] = {
      {.stream_order = StreamOrder::kProgram, .thread_order = ThreadOrder::kAscending},
      {.stream_order = StreamOrder::kLatest, .thread_order = ThreadOrder::kDescending},
      {.stream_order = StreamOrder::kRandom, .thread_order = ThreadOrder::kRandom, .seed = 1},
      {.stream_order = StreamOrder::kRandom, .thread_order = ThreadOrder::kRandom, .seed = 2}};
  for (Options order : orders) {
    SCOPED_TRACE(testing::Message() << "thread order " << static_cast<int>(order.thread_order)
                                    << ", seed " << order.seed);
    order.device_count = device_count;
    Reset(order);
    run();
    EXPECT_THAT(TakeFindings(), testing::IsEmpty());
  }
}

}  // namespace

void CudaTest::InEachOrder(const std::function<void()>& body) {
  WithEachOrder(1, [&] { RunOnce(body); });
}

void CudaTest::InEachOrderOnRanks(int size,
                                  const std::function<void(int rank, cudaStream_t)>& body) {
  WithEachOrder(size, [&] { RunRanks(size, body); });
}

}  // namespace strata::standin
