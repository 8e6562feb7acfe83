#include "planner/calibration/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::planner {
namespace {

constexpr int kScalars = 6;
using Vector = std::array<double, kScalars>;
using Matrix = std::array<Vector, kScalars>;

// One unit of a coordinate is as far from the prior as is usual: relative, in logarithms.
constexpr Vector kSpread = {0.10, 0.12, 0.15, 0.15, 0.6, 0.35};
constexpr double kNoise = 0.03;       // of published seconds, section 1.4 of their collection
constexpr double kMostPerSource = 8;  // runs' worth of weight that a source has among others

Calibration At(const Vector& x, const Calibration& prior) {
  const auto moved = [&](double value, int i) { return value * std::exp(kSpread[i] * x[i]); };
  Calibration calibration;
  calibration.product = std::min(moved(prior.product, 0), 0.95);
  calibration.attention = std::min(moved(prior.attention, 1), 0.85);
  calibration.memory = std::min(moved(prior.memory, 2), 1.0);
  calibration.communication = moved(prior.communication, 3);
  calibration.overhead_seconds = moved(prior.overhead_seconds, 4);
  calibration.straggler = moved(prior.straggler, 5);
  return calibration;
}

double LogError(const FittedRun& fitted, const Calibration& calibration) {
  Machine machine = fitted.machine;
  machine.calibration = calibration;
  return std::log(PredictRunOn(machine, *fitted.run).seconds / *fitted.run->seconds);
}

// The sum of squares, outliers counted less than squared: 2 (sqrt(1 + z²) - 1).
double LossAt(const std::vector<FittedRun>& runs, const Vector& x, const Calibration& prior) {
  const Calibration calibration = At(x, prior);
  double loss = 0;
  for (const FittedRun& run : runs) {
    const double z = LogError(run, calibration) / kNoise;
    loss += run.weight * 2 * (std::sqrt(1 + z * z) - 1);
  }
  for (const double value : x) loss += value * value;
  return loss;
}

// Solves a x = b for a symmetric positive definite a, by Cholesky's method.
Vector Solve(Matrix a, Vector b) {
  for (int j = 0; j < kScalars; ++j) {
    for (int i = j; i < kScalars; ++i) {
      for (int k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(a[i][j]) : a[i][j] / a[j][j];
    }
  }
  for (int i = 0; i < kScalars; ++i) {
    for (int k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (int i = kScalars - 1; i >= 0; --i) {
    for (int k = i + 1; k < kScalars; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

// The normal equations at x: weights of outliers shrink with their distance.
void Linearise(const std::vector<FittedRun>& runs, const Vector& x, const Calibration& prior,
               Matrix& normal, Vector& gradient) {
  constexpr double kStep = 1e-4;
  const Calibration here = At(x, prior);
  std::array<Calibration, kScalars> moved;
  for (int i = 0; i < kScalars; ++i) {
    Vector y = x;
    y[i] += kStep;
    moved[i] = At(y, prior);
  }
  normal = {};
  gradient = {};
  for (int i = 0; i < kScalars; ++i) {
    normal[i][i] = 1;
    gradient[i] = x[i];
  }
  for (const FittedRun& run : runs) {
    const double z = LogError(run, here) / kNoise;
    const double weight = run.weight / std::sqrt(1 + z * z);
    Vector slope;
    for (int i = 0; i < kScalars; ++i) {
      slope[i] = (LogError(run, moved[i]) / kNoise - z) / kStep;
    }
    for (int i = 0; i < kScalars; ++i) {
      gradient[i] += weight * z * slope[i];
      for (int j = 0; j < kScalars; ++j) normal[i][j] += weight * slope[i] * slope[j];
    }
  }
}

const v1::SoftwareProfile& FamilyOf(const Catalog& catalog, const MeasuredRun& run) {
  const absl::StatusOr<FoundMachine> found = catalog.Find(run.machine);
  for (const v1::SoftwareProfile& profile : catalog.profiles().software()) {
    if (found.ok() && profile.name() == found->software) return profile;
  }
  return v1::SoftwareProfile::default_instance();
}

Calibration PriorOf(const v1::SoftwareProfile& family) {
  Calibration prior;
  if (family.overhead_seconds() > 0) prior.overhead_seconds = family.overhead_seconds();
  return prior;
}

// "A-0001..A-0009" for each stretch of ids that differ in a final number which grows by one.
std::vector<std::string> Stretches(const std::vector<FittedRun>& runs) {
  const auto split = [](const std::string& id) {
    const size_t dash = id.rfind('-');
    int64_t number = -1;
    if (dash == std::string::npos || !absl::SimpleAtoi(id.substr(dash + 1), &number)) number = -1;
    return std::pair(dash == std::string::npos ? id : id.substr(0, dash), number);
  };
  std::vector<std::string> stretches;
  for (size_t begin = 0; begin < runs.size();) {
    size_t end = begin + 1;
    while (end < runs.size()) {
      const auto [name, number] = split(runs[end - 1].run->id);
      if (number < 0 || split(runs[end].run->id) != std::pair(name, number + 1)) break;
      ++end;
    }
    stretches.push_back(runs[begin].run->id);
    if (end > begin + 1) absl::StrAppend(&stretches.back(), "..", runs[end - 1].run->id);
    begin = end;
  }
  return stretches;
}

double Rounded(double value) {
  const double scale = std::pow(10, 4 - std::ceil(std::log10(value)));
  return std::round(value * scale) / scale;
}

v1::CalibrationProfile ToRecord(const std::string& gpu, const std::string& precision,
                                const std::string& release, const std::string& family,
                                const Calibration& calibration,
                                const std::vector<FittedRun>& runs) {
  v1::CalibrationProfile record;
  record.set_gpu(gpu);
  record.set_precision(precision);
  record.set_release(release);
  record.set_family(family);
  record.set_product(Rounded(calibration.product));
  record.set_attention(Rounded(calibration.attention));
  record.set_memory(Rounded(calibration.memory));
  record.set_communication(Rounded(calibration.communication));
  record.set_overhead_seconds(Rounded(calibration.overhead_seconds));
  record.set_straggler(Rounded(calibration.straggler));
  for (const std::string& stretch : Stretches(runs)) record.add_rows(stretch);
  return record;
}

void WeighSources(std::vector<FittedRun>& runs) {
  std::map<std::string, double> counts;
  for (const FittedRun& run : runs) ++counts[run.run->source];
  for (FittedRun& run : runs) run.weight = std::min(1.0, kMostPerSource / counts[run.run->source]);
}

}  // namespace

Calibration FitCalibration(const std::vector<FittedRun>& runs, const Calibration& prior) {
  constexpr int kIterations = 60;
  STRATA_CHECK(!runs.empty());
  Vector x = {};
  double loss = LossAt(runs, x, prior), damping = 1e-2;
  for (int i = 0; i < kIterations && damping < 1e8; ++i) {
    Matrix normal;
    Vector gradient;
    Linearise(runs, x, prior, normal, gradient);
    for (int j = 0; j < kScalars; ++j) normal[j][j] *= 1 + damping;
    const Vector step = Solve(normal, gradient);
    Vector y = x;
    for (int j = 0; j < kScalars; ++j) y[j] = std::clamp(x[j] - step[j], -8.0, 8.0);
    const double next = LossAt(runs, y, prior);
    if (next < loss) {
      const bool done = loss - next < 1e-9 * loss;
      x = y;
      loss = next;
      damping = std::max(damping / 5, 1e-9);
      if (done) break;
    } else {
      damping *= 8;
    }
  }
  return At(x, prior);
}

std::vector<v1::CalibrationProfile> FitAll(const Catalog& catalog,
                                           const std::vector<MeasuredRun>& runs) {
  using Key = std::pair<std::string, std::string>;  // GPU, precision
  std::map<Key, std::map<std::string, std::vector<FittedRun>>> groups;
  for (const MeasuredRun& run : runs) {
    if (!run.reason.empty() || !run.direct) continue;
    const absl::StatusOr<FoundMachine> found = catalog.Find(run.machine);
    if (!found.ok()) continue;
    groups[{found->machine.gpu.name, NameOf(run.layout.precision)}][run.source].push_back(
        {&run, found->machine, 1});
  }
  std::vector<v1::CalibrationProfile> records;
  for (const auto& [key, releases] : groups) {
    const auto& [gpu, precision] = key;
    std::vector<FittedRun> usual, all;
    for (const auto& [release, of_release] : releases) {
      const v1::SoftwareProfile& family = FamilyOf(catalog, *of_release[0].run);
      if (family.exclusive()) continue;
      all.insert(all.end(), of_release.begin(), of_release.end());
      if (family.peculiar()) continue;
      usual.insert(usual.end(), of_release.begin(), of_release.end());
    }
    std::vector<FittedRun>& any = usual.empty() ? all : usual;
    Calibration of_any;
    if (!any.empty()) {
      WeighSources(any);
      of_any = FitCalibration(any, Calibration());
      records.push_back(ToRecord(gpu, precision, "", "", of_any, any));
    }
    for (const auto& [release, of_release] : releases) {
      const v1::SoftwareProfile& family = FamilyOf(catalog, *of_release[0].run);
      const Calibration prior = family.exclusive() ? PriorOf(family) : of_any;
      records.push_back(ToRecord(gpu, precision, release, family.name(),
                                 FitCalibration(of_release, prior), of_release));
    }
  }
  return records;
}

Catalog WithCalibrations(const Catalog& catalog, std::vector<v1::CalibrationProfile> calibrations) {
  v1::HardwareCatalog profiles = catalog.profiles();
  profiles.clear_calibrations();
  for (v1::CalibrationProfile& record : calibrations) {
    *profiles.add_calibrations() = std::move(record);
  }
  absl::StatusOr<Catalog> made = Catalog::From(std::move(profiles));
  STRATA_CHECK(made.ok());
  return *std::move(made);
}

std::vector<GroupErrors> LeaveOneSourceOut(const Catalog& catalog,
                                           const std::vector<MeasuredRun>& runs) {
  std::set<std::string> sources;
  for (const MeasuredRun& run : runs) sources.insert(run.source);
  std::vector<GroupErrors> errors;
  for (const std::string& source : sources) {
    std::vector<MeasuredRun> others, own;
    for (const MeasuredRun& run : runs) (run.source == source ? own : others).push_back(run);
    const Evaluation evaluation = Evaluate(WithCalibrations(catalog, FitAll(catalog, others)), own);
    for (const GroupErrors& group : evaluation.by_source_and_precision) errors.push_back(group);
  }
  return errors;
}

}  // namespace strata::planner
