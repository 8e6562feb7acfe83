// Trainings on the stand-in, a thread and a device for each rank, and what their calls order.
#ifndef STRATA_WORKER_ENGINE_CUDA_STANDIN_TRAINING_H_
#define STRATA_WORKER_ENGINE_CUDA_STANDIN_TRAINING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "device/standin/options.h"
#include "device/standin/order.h"
#include "worker/engine/cuda/order_watch.h"
#include "worker/engine/cuda/training_testing.h"

namespace strata::worker {

// Of few channels and short texts, as each is interpreted; no evaluation.
Training TinyTraining();

class StandinTraining {
 public:
  // Begins with a fresh runtime; ranks are those of the plan's data group. `graph_actions`: see
  // Accelerator. `check`: accesses to memory.
  StandinTraining(Training training, standin::StreamOrder order, int graph_actions,
                  bool check = true);

  int ranks() const { return static_cast<int>(watches_.size()); }
  OrderWatch& watch(int rank) { return *watches_[rank]; }

  // Trains; findings are failures of the test.
  void Run();

  const TrainingOutcome& outcome(int rank) const { return outcomes_[rank]; }
  // What an action of the training program did in a step, counted from 0.
  const std::vector<standin::Piece>& PiecesOf(int rank, int action, int64_t step) {
    return pieces_[{watches_[rank]->LabelOf(0, action), step}];
  }

 private:
  void TrainRank(int rank, collectives::Communicator* communicator);

  const Training training_;
  const int graph_actions_;
  std::vector<std::unique_ptr<OrderWatch>> watches_;
  std::vector<TrainingOutcome> outcomes_;
  std::map<std::pair<std::string, int64_t>, std::vector<standin::Piece>> pieces_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_STANDIN_TRAINING_H_
