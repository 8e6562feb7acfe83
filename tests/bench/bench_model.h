// The model of benchmarks of whole steps, and the ranks that train it.
#ifndef STRATA_TESTS_BENCH_BENCH_MODEL_H_
#define STRATA_TESTS_BENCH_BENCH_MODEL_H_

#include "model/model_spec.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::bench {

using worker::ComposeTraining;
using worker::Median;
using worker::TrainingRank;
using worker::TrainingSpec;

// GPT-2's small size: 124 M parameters with tied embeddings; `quick`: 3 M.
model::ModelSpec BenchModel(bool quick, bool tied);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_BENCH_MODEL_H_
