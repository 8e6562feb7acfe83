// Whole trainings of tiny models, by the same composer and engine on the CPU and on an accelerator.
#ifndef STRATA_WORKER_ENGINE_CUDA_TRAINING_TESTING_H_
#define STRATA_WORKER_ENGINE_CUDA_TRAINING_TESTING_H_

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "model/families/families.h"
#include "model/optimizer/loss_scale.h"
#include "model/optimizer/number_formats.h"
#include "program/compose/plan.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/small_model.h"

namespace strata::worker {

// Steps of kSmallBatch samples of the text that SmallModel learns.
struct Training {
  model::ModelSpec spec;
  model::EmitOptions emission;
  model::NumberFormats formats;
  program::Plan plan;
  int steps = 20;
  std::vector<int64_t> overflow_steps = {};  // counted from 1
  // Sees, and may change, what was composed; null: nobody does.
  std::function<void(program::ProgramSet&)> look_at = nullptr;
  model::LossScale loss_scale = {};  // of f16, as it begins
  double rate_growth = 0;            // of the learning rate, from step to step
};

// Of SmallModel, in f32, with all samples in one pass.
Training SmallTraining();

struct TrainingOutcome {
  std::vector<double> losses, norms;  // of steps that were applied
  std::vector<double> loss_scales;    // of f16, of all steps
  double validation = 0;
  std::vector<double> parameters;  // the rank's, as they are kept
  program::ProgramSet programs;    // as the engine ran them
};

// Runs a rank's steps, and an evaluation. `accelerator` null: on the CPU, in one tier.
// `communicator`: null alone; of the data group. `observer` may be null.
void Train(const Training& training, Accelerator* accelerator, int rank,
           collectives::Communicator* communicator, TrainingOutcome& outcome,
           IssueObserver* observer = nullptr);

// Losses are as near as `tolerance` times them, norms as five times that, and parameters as ten
// times: gradients that are nothing but rounding, as those of keys' biases, move them, too.
void ExpectNear(const TrainingOutcome& outcome, const TrainingOutcome& expected, double tolerance);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_TRAINING_TESTING_H_
