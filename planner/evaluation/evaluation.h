// How far predictions are from measured runs.
#ifndef STRATA_PLANNER_EVALUATION_EVALUATION_H_
#define STRATA_PLANNER_EVALUATION_EVALUATION_H_

#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/runs_file.h"
#include "planner/performance/catalog.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {

struct RunPrediction {
  std::optional<StepPrediction> step;
  std::string reason;       // why there is none
  std::string calibration;  // what answered for the machine
};

// Reads nothing that was measured.
RunPrediction PredictRun(const Catalog& catalog, const MeasuredRun& run);
// On a machine that is already found.
StepPrediction PredictRunOn(const Machine& machine, const MeasuredRun& run);

// Relative errors, predicted / measured - 1.
struct ErrorStatistics {
  int count = 0;
  double mean_absolute = 0;
  double bias = 0;
  double worst = 0;  // the farthest from 0
  std::string worst_id;
};

struct GroupErrors {
  std::string name;
  ErrorStatistics errors;
};

// Runs of one model on as many devices with the same batch: what a search would choose among.
struct GridRanking {
  std::string name;
  int count = 0;
  double rank_correlation = 0;  // Spearman's, ties share their mean rank
  double regret = 0;            // of the layout predicted fastest: measured / fastest measured - 1
  double mean_absolute = 0;
};

struct Evaluation {
  std::vector<RunPrediction> predictions;  // one per run, in order
  // Over runs whose seconds are direct.
  std::vector<GroupErrors> by_source;
  std::vector<GroupErrors> by_precision;  // here the mean is over sources, each counting once
  std::vector<GroupErrors> by_gpu;        // likewise
  std::vector<GroupErrors> by_source_and_precision;
  std::vector<GridRanking> grids;
  ErrorStatistics indirect;  // runs whose seconds are estimates
  ErrorStatistics memory;
};

Evaluation Evaluate(const Catalog& catalog, const std::vector<MeasuredRun>& runs);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_EVALUATION_EVALUATION_H_
