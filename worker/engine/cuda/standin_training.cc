#include "worker/engine/cuda/standin_training.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/standin/standin.h"
#include "gmock/gmock.h"
#include "worker/engine/cuda/cuda_accelerator.h"

namespace strata::worker {

Training TinyTraining() {
  Training training = SmallTraining();
  training.spec.hidden = 8;
  training.spec.heads = 2;
  training.spec.kv_heads = 1;
  training.spec.head_size = 4;
  training.spec.ffn = 8;
  training.emission.sequence = 2;
  training.plan.evaluate_batch = 0;
  return training;
}

StandinTraining::StandinTraining(Training training, standin::StreamOrder order, int graph_actions,
                                 bool check)
    : training_(std::move(training)), graph_actions_(graph_actions) {
  const int ranks = training_.plan.groups.data;
  standin::Reset({.stream_order = order, .check = check, .device_count = ranks});
  for (int rank = 0; rank < ranks; ++rank) {
    watches_.push_back(
        std::make_unique<OrderWatch>(ranks > 1 ? absl::StrCat("rank ", rank, ", ") : ""));
  }
  outcomes_.resize(ranks);
}

void StandinTraining::Run() {
  auto communicators = collectives::LoopbackWorld(ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks(); ++rank) {
    threads.emplace_back([&, rank] { TrainRank(rank, communicators[rank].get()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(standin::TakeFindings(), testing::IsEmpty());
  for (standin::Piece& piece : standin::TakePieces()) {
    std::pair<std::string, int64_t> key(piece.label, piece.turn);
    pieces_[std::move(key)].push_back(std::move(piece));
  }
}

void StandinTraining::TrainRank(int rank, collectives::Communicator* communicator) {
  std::unique_ptr<collectives::NcclCommunicator> nccl;
  if (ranks() > 1) {
    auto made =
        collectives::NcclCommunicator::Create({.rank = rank,
                                               .size = ranks(),
                                               .device = rank,
                                               .share = collectives::ShareOver(communicator)});
    ASSERT_TRUE(made.ok()) << made.status();
    nccl = *std::move(made);
  }
  auto accelerator = CudaAccelerator::Create(rank, std::move(nccl));
  ASSERT_TRUE(accelerator.ok()) << accelerator.status();
  (*accelerator)->set_graph_actions(graph_actions_);
  Train(training_, accelerator->get(), rank, ranks() > 1 ? communicator : nullptr, outcomes_[rank],
        watches_[rank].get());
  if (ranks() == 1) return;
  const absl::Status closed = (*accelerator)->CloseCommunication(absl::Seconds(30));
  EXPECT_TRUE(closed.ok()) << closed;
}

}  // namespace strata::worker
