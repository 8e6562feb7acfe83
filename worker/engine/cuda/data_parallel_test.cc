// Trainings of several ranks, each a thread with a device of its own, whose queues communicate by
// NCCL.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/standin/nccl_standin.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/training_testing.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::ShardLevel;

std::unique_ptr<CudaAccelerator> AcceleratorOf(int rank, int ranks,
                                               collectives::Communicator* communicator) {
  auto nccl = collectives::NcclCommunicator::Create(
      {.rank = rank, .size = ranks, .device = rank, .share = collectives::ShareOver(communicator)});
  EXPECT_TRUE(nccl.ok()) << nccl.status();
  auto accelerator = CudaAccelerator::Create(rank, *std::move(nccl));
  EXPECT_TRUE(accelerator.ok()) << accelerator.status();
  return *std::move(accelerator);
}

void TrainRank(const Training& training, int rank, int ranks,
               collectives::Communicator* communicator, TrainingOutcome& outcome) {
  const auto accelerator = AcceleratorOf(rank, ranks, communicator);
  Train(training, accelerator.get(), rank, communicator, outcome);
  const absl::Status closed = accelerator->CloseCommunication(absl::Seconds(30));
  EXPECT_TRUE(closed.ok()) << closed;
}

class DataParallelTest : public standin::CudaTest {
 protected:
  void ExpectAsOneRank(ShardLevel level) {
    constexpr int kRanks = 2;
    Training training = SmallTraining();
    training.emission.micro_batch = kSmallBatch / kRanks;
    training.steps = 6;
    TrainingOutcome expected;
    Train(training, nullptr, 0, nullptr, expected);
    training.plan.groups.data = kRanks;
    training.plan.shard = level;
    if (level != ShardLevel::kNone) training.plan.groups.shard = kRanks;
    training.plan.virtual_shards = 0;  // sums are NCCL's, in no tree
    for (const auto order : {standin::StreamOrder::kProgram, standin::StreamOrder::kLatest,
                             standin::StreamOrder::kRandom}) {
      standin::Reset({.stream_order = order, .device_count = kRanks});
      auto communicators = collectives::LoopbackWorld(kRanks);
      std::vector<TrainingOutcome> outcomes(kRanks);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < kRanks; ++rank) {
        threads.emplace_back([&, rank] {
          TrainRank(training, rank, kRanks, communicators[rank].get(), outcomes[rank]);
        });
      }
      for (std::thread& thread : threads) thread.join();
      if (HasFatalFailure()) return;
      for (const TrainingOutcome& outcome : outcomes) ExpectNear(outcome, expected, 1e-4);
      EXPECT_THAT(standin::TakeFindings(), testing::IsEmpty());
    }
  }
};

TEST_F(DataParallelTest, GradientsAreReduced) { ExpectAsOneRank(ShardLevel::kNone); }

// Nothing else ends the wait: the other rank goes on for ever.
TEST_F(DataParallelTest, AnErrorOfCommunicationEndsAStepThatWaits) {
  standin::Reset({.device_count = 2});
  auto communicators = collectives::LoopbackWorld(2);
  std::atomic<bool> is_over{false};
  const auto run = [&](int rank) {
    auto accelerator = AcceleratorOf(rank, 2, communicators[rank].get());
    Workshop shop(2, program::Tier::kDevice);
    const int slot = shop.Slot("slot");
    shop.assembler.BeginProgram("train");
    shop.AllReduce(slot);
    shop.Double(slot);
    shop.accelerator = accelerator.get();
    auto opened = shop.Open(rank, 2, std::move(communicators[rank]));
    ASSERT_TRUE(opened.ok()) << opened.status();
    if (rank == 0) {
      const absl::Status status = opened->engine->RunStep(0, 0);
      is_over = true;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(status.message(), testing::HasSubstr("remote process exited"));
    } else {
      while (standin::DescribeWaits().empty()) std::this_thread::yield();
      standin::FailCommunicators(0, ncclRemoteError);
      while (!is_over) std::this_thread::yield();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_THAT(standin::TakeFindings(), testing::IsEmpty());
}

TEST_F(DataParallelTest, GradientsAreScatteredAndParametersGathered) {
  ExpectAsOneRank(ShardLevel::kGradients);
}

}  // namespace
}  // namespace strata::worker
