// Trainings of several ranks, each a thread with a device of its own, whose queues communicate by
// NCCL.
#include <memory>
#include <thread>
#include <vector>

#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/training_testing.h"

namespace strata::worker {
namespace {

using program::ShardLevel;

void TrainRank(const Training& training, int rank, int ranks,
               collectives::Communicator* communicator, TrainingOutcome& outcome) {
  auto nccl = collectives::NcclCommunicator::Create(
      {.rank = rank, .size = ranks, .device = rank, .share = collectives::ShareOver(communicator)});
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  auto accelerator = CudaAccelerator::Create(rank, nccl->get());
  ASSERT_TRUE(accelerator.ok()) << accelerator.status();
  Train(training, accelerator->get(), rank, communicator, outcome);
  const absl::Status closed = (*nccl)->Close(absl::Seconds(30));
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

TEST_F(DataParallelTest, GradientsAreScatteredAndParametersGathered) {
  ExpectAsOneRank(ShardLevel::kGradients);
}

}  // namespace
}  // namespace strata::worker
