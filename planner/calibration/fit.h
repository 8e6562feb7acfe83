// Calibrations fitted to measured runs: at most six numbers per (GPU, precision, release), held
// near what is physically usual where the runs do not say otherwise.
#ifndef STRATA_PLANNER_CALIBRATION_FIT_H_
#define STRATA_PLANNER_CALIBRATION_FIT_H_

#include <vector>

#include "planner/evaluation/evaluation.h"
#include "planner/evaluation/runs_file.h"
#include "planner/performance/catalog.h"

namespace strata::planner {

// A run, the machine it ran on, and its weight.
struct FittedRun {
  const MeasuredRun* run = nullptr;
  Machine machine;
  double weight = 1;
};

// Least squares of the logarithms of predicted / measured (Levenberg-Marquardt), with outliers
// weighted down, and of the distance from `prior`. `runs` have direct seconds.
Calibration FitCalibration(const std::vector<FittedRun>& runs, const Calibration& prior);

// For each GPU and precision one record for any release, from all families that are not peculiar
// and answer for others, and from it one for each release. Runs without direct seconds, and those
// that cannot be predicted, are left out. Sorted; the same runs give the same records.
std::vector<v1::CalibrationProfile> FitAll(const Catalog& catalog,
                                           const std::vector<MeasuredRun>& runs);

// The catalog with these calibrations instead of its own.
Catalog WithCalibrations(const Catalog& catalog, std::vector<v1::CalibrationProfile> calibrations);

// Each source predicted by a catalog fitted to the others.
std::vector<GroupErrors> LeaveOneSourceOut(const Catalog& catalog,
                                           const std::vector<MeasuredRun>& runs);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_CALIBRATION_FIT_H_
