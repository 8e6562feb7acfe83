#include "planner/evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

constexpr int kLeastGrid = 5;  // runs that make a grid

struct Sample {
  const MeasuredRun* run;
  double error;
};
using Groups = std::map<std::string, std::vector<Sample>>;

ErrorStatistics StatisticsOf(const std::vector<Sample>& samples) {
  ErrorStatistics statistics;
  for (const Sample& sample : samples) {
    ++statistics.count;
    statistics.mean_absolute += std::abs(sample.error);
    statistics.bias += sample.error;
    if (statistics.count == 1 || std::abs(sample.error) > std::abs(statistics.worst)) {
      statistics.worst = sample.error;
      statistics.worst_id = sample.run->id;
    }
  }
  if (statistics.count == 0) return statistics;
  statistics.mean_absolute /= statistics.count;
  statistics.bias /= statistics.count;
  return statistics;
}

std::vector<GroupErrors> ErrorsOf(const Groups& groups) {
  std::vector<GroupErrors> errors;
  for (const auto& [name, samples] : groups) errors.push_back({name, StatisticsOf(samples)});
  return errors;
}

// Each source's mean counts once.
std::vector<GroupErrors> ErrorsPerSource(const Groups& groups) {
  std::vector<GroupErrors> errors;
  for (const auto& [name, samples] : groups) {
    Groups sources;
    for (const Sample& sample : samples) sources[sample.run->source].push_back(sample);
    ErrorStatistics statistics = StatisticsOf(samples);
    statistics.mean_absolute = statistics.bias = 0;
    for (const auto& [source, of_source] : sources) {
      const ErrorStatistics one = StatisticsOf(of_source);
      statistics.mean_absolute += one.mean_absolute / static_cast<double>(sources.size());
      statistics.bias += one.bias / static_cast<double>(sources.size());
    }
    errors.push_back({name, statistics});
  }
  return errors;
}

std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = RanksOf(a), y = RanksOf(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

GridRanking RankingOf(const std::string& name, const std::vector<Sample>& samples) {
  std::vector<double> measured, predicted;
  for (const Sample& sample : samples) {
    measured.push_back(*sample.run->seconds);
    predicted.push_back(*sample.run->seconds * (1 + sample.error));
  }
  GridRanking ranking;
  ranking.name = name;
  ranking.count = static_cast<int>(samples.size());
  ranking.rank_correlation = RankCorrelation(measured, predicted);
  const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  ranking.regret = measured[chosen] / *std::min_element(measured.begin(), measured.end()) - 1;
  ranking.mean_absolute = StatisticsOf(samples).mean_absolute;
  return ranking;
}

// Layouts differ inside a grid, and nothing else.
std::string GridOf(const MeasuredRun& run) {
  return absl::StrCat(run.source, " ", run.model, ", ", run.devices, " x ", run.machine.gpu,
                      ", batch ", run.layout.global_batch, ", ", NameOf(run.layout.precision));
}

}  // namespace

StepPrediction PredictRunOn(const Machine& machine, const MeasuredRun& run) {
  Machine used = machine;
  LayoutChoice layout = run.layout;
  if (!run.data_overlap) used.software.data_overlap = false;
  if (used.software.operator_recompute && layout.recompute == Recompute::kSelective) {
    layout.recompute = Recompute::kOperators;
  }
  return PredictStep(used, run.shape, layout);
}

RunPrediction PredictRun(const Catalog& catalog, const MeasuredRun& run) {
  RunPrediction prediction;
  prediction.reason = run.reason;
  if (!prediction.reason.empty()) return prediction;
  const absl::StatusOr<FoundMachine> found = catalog.Find(run.machine);
  if (!found.ok()) {
    prediction.reason = std::string(found.status().message());
    return prediction;
  }
  prediction.calibration = absl::StrCat(found->calibration, ", run by ", found->software);
  prediction.step = PredictRunOn(found->machine, run);
  return prediction;
}

Evaluation Evaluate(const Catalog& catalog, const std::vector<MeasuredRun>& runs) {
  Evaluation evaluation;
  Groups sources, precisions, gpus, both, grids;
  std::vector<Sample> indirect, memory;
  for (const MeasuredRun& run : runs) {
    RunPrediction prediction = PredictRun(catalog, run);
    if (prediction.step.has_value()) {
      if (run.memory_bytes.has_value()) {
        memory.push_back({&run, prediction.step->memory_bytes / *run.memory_bytes - 1});
      }
      if (run.seconds.has_value()) {
        const Sample sample = {&run, prediction.step->seconds / *run.seconds - 1};
        const std::string precision = NameOf(run.layout.precision);
        if (run.direct) {
          sources[run.source].push_back(sample);
          precisions[precision].push_back(sample);
          gpus[run.machine.gpu].push_back(sample);
          both[absl::StrCat(run.source, " ", run.machine.gpu, " ", precision)].push_back(sample);
          grids[GridOf(run)].push_back(sample);
        } else {
          indirect.push_back(sample);
        }
      }
    }
    evaluation.predictions.push_back(std::move(prediction));
  }
  evaluation.by_source = ErrorsOf(sources);
  evaluation.by_precision = ErrorsPerSource(precisions);
  evaluation.by_gpu = ErrorsPerSource(gpus);
  evaluation.by_source_and_precision = ErrorsOf(both);
  for (const auto& [name, samples] : grids) {
    if (samples.size() >= kLeastGrid) evaluation.grids.push_back(RankingOf(name, samples));
  }
  evaluation.indirect = StatisticsOf(indirect);
  evaluation.memory = StatisticsOf(memory);
  return evaluation;
}

}  // namespace strata::planner
