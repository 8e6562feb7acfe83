// Steps whose compute is launched as graphs: the bits of steps launched action by action, whatever
// changes from step to step.
#include <string>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "program/passes/layout.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/standin_training.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using standin::CallsOf;
using standin::StreamOrder;
using testing::HasSubstr;

constexpr int kLeast = 2;  // actions that make a graph

// Six steps, of which the third changes nothing; rate, step and batch are others in each.
Training Changing() {
  Training training = TinyTraining();
  training.steps = 6;
  training.overflow_steps = {3};
  training.rate_growth = 0.003;
  return training;
}

void ExpectSameBits(const Training& of) {
  StandinTraining plain(of, StreamOrder::kProgram, 0);
  plain.Run();
  const int64_t kernels = CallsOf("cudaLaunchKernel");
  EXPECT_EQ(CallsOf("cudaGraphLaunch"), 0);
  EXPECT_LT(plain.outcome(0).losses.size(), of.steps);
  for (const StreamOrder order :
       {StreamOrder::kProgram, StreamOrder::kLatest, StreamOrder::kRandom}) {
    SCOPED_TRACE(static_cast<int>(order));
    StandinTraining graphs(of, order, kLeast, order == StreamOrder::kRandom);
    graphs.Run();
    if (testing::Test::HasFatalFailure()) return;
    // A step's kernels are launched one by one, and captured once for each variant.
    EXPECT_LT(CallsOf("cudaLaunchKernel"), kernels * 3 / 4);
    EXPECT_GE(CallsOf("cudaGraphLaunch"), (of.steps - 1) * plain.ranks());
    for (int rank = 0; rank < plain.ranks(); ++rank) {
      EXPECT_EQ(graphs.outcome(rank).losses, plain.outcome(rank).losses);
      EXPECT_EQ(graphs.outcome(rank).norms, plain.outcome(rank).norms);
      EXPECT_EQ(graphs.outcome(rank).parameters, plain.outcome(rank).parameters);
    }
  }
}

TEST(GraphsTest, StepsOfWhichSomeAreNotApplied) { ExpectSameBits(Changing()); }

// The next version of a set lies elsewhere than this one: a graph for each.
TEST(GraphsTest, VersionsThatTakeTurns) {
  Training training = Changing();
  training.plan.update = program::UpdatePolicy::kSpeculative;
  training.plan.gradient_clip = 0.1;
  ExpectSameBits(training);
}

TEST(GraphsTest, LayersAndUpdatesOnTheHost) {
  Training training = Changing();
  training.spec.layers = 3;
  training.steps = 4;
  training.plan.places = {{.host = 1}, {.host = 1}, {.host = 1}, {.host = 1}};
  training.plan.streaming = {.resident = 2, .moved = 1};
  ExpectSameBits(training);
}

TEST(GraphsTest, SeveralRanks) {
  Training training = Changing();
  training.steps = 4;
  training.emission.micro_batch = kSmallBatch / 2;
  training.plan.groups.data = 2;
  training.plan.virtual_shards = 0;
  ExpectSameBits(training);
}

// A number that is doubled three times in a step.
struct Doubling {
  explicit Doubling(int graph_actions) : shop(1, program::Tier::kDevice) {
    number = shop.Slot("number");
    shop.assembler.BeginProgram("train");
    for (int i = 0; i < 3; ++i) shop.Double(number);
    EXPECT_TRUE(program::LayOut(shop.set).ok());
    accelerator = *CudaAccelerator::Create(0);
    accelerator->set_graph_actions(graph_actions);
    shop.accelerator = accelerator.get();
    rank = *shop.OpenLaidOut(0, 1, nullptr);
  }
  Workshop shop;
  int number;
  std::unique_ptr<CudaAccelerator> accelerator;
  ToyRank rank;
};

TEST(GraphsTest, RowsThatAreTooShortAreLaunchedOneByOne) {
  for (const int least : {3, 4}) {
    standin::Reset();
    Doubling doubling(least);
    for (int step = 0; step < 4; ++step) {
      ASSERT_TRUE(doubling.rank.engine->RunStep(0, 0).ok());
    }
    EXPECT_EQ(CallsOf("cudaGraphLaunch"), least == 3 ? 3 : 0);
    EXPECT_EQ(CallsOf("cudaGraphInstantiate"), least == 3 ? 1 : 0);
    EXPECT_EQ(CallsOf("cudaLaunchKernel"), least == 3 ? 6 : 12);
  }
}

TEST(GraphsTest, WhatCannotBeCapturedNamesItsActions) {
  for (const char* call : {"cudaStreamBeginCapture", "cudaLaunchKernel", "cudaStreamEndCapture",
                           "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    SCOPED_TRACE(call);
    standin::Reset();
    Doubling doubling(kLeast);
    ASSERT_TRUE(doubling.rank.engine->RunStep(0, 0).ok());
    standin::FailCall(call, 1, cudaErrorNotSupported);
    const absl::Status status = doubling.rank.engine->RunStep(0, 0);
    EXPECT_THAT(status.message(), HasSubstr("instruction 0 (double), op 0 (add)"));
    EXPECT_EQ(doubling.rank.engine->RunStep(0, 0), status);
  }
}

}  // namespace
}  // namespace strata::worker
