#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::standin {

void CudaTest::SetUp() { Reset(); }

void CudaTest::InEachOrder(const std::function<void()>& body) {
  const Options orders[] = {
      {.stream_order = StreamOrder::kProgram, .thread_order = ThreadOrder::kAscending},
      {.stream_order = StreamOrder::kLatest, .thread_order = ThreadOrder::kDescending},
      {.stream_order = StreamOrder::kRandom, .thread_order = ThreadOrder::kRandom, .seed = 1},
      {.stream_order = StreamOrder::kRandom, .thread_order = ThreadOrder::kRandom, .seed = 2}};
  for (const Options& order : orders) {
    SCOPED_TRACE(testing::Message() << "thread order " << static_cast<int>(order.thread_order)
                                    << ", seed " << order.seed);
    Reset(order);
    RunOnce(body);
    EXPECT_THAT(TakeFindings(), testing::IsEmpty());
  }
}

}  // namespace strata::standin
