#include "worker/trainer/calibration/stub_communicator.h"

#include <vector>

#include "collectives/loopback.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using collectives::Operation;
using collectives::OpKind;

// The other member never comes, so what is not stubbed cannot end.
TEST(StubCommunicator, WhileStubbed_OperationsEndAtOnceAndMoveNothing) {
  auto world = collectives::LoopbackWorld(2);
  StubCommunicator stub(world[0].get());
  const auto group = stub.CreateGroup({0, 1});
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<float> out = {1, 2};
  const Operation gather = {.kind = OpKind::kAllGather,
                            .group = *group,
                            .type = collectives::DataType::kF32,
                            .count = 1,
                            .in = out.data(),
                            .out = out.data()};
  stub.SetStubbed(true);
  const auto posted = stub.Post(gather);
  ASSERT_TRUE(posted.ok()) << posted.status();
  EXPECT_TRUE(stub.Progress());  // so that who drives it looks at once
  EXPECT_FALSE(stub.Progress());
  const auto done = stub.Test(*posted);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(*done);
  EXPECT_EQ(out, (std::vector<float>{1, 2}));
  stub.SetStubbed(false);
  const auto real = stub.Post(gather);
  ASSERT_TRUE(real.ok()) << real.status();
  stub.Progress();
  const auto waits = stub.Test(*real);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_FALSE(*waits);
}

}  // namespace
}  // namespace strata::worker
