#include "client/views/evaluation_view.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

constexpr size_t kMostGrids = 12;  // of a source, shown one by one

std::string ErrorPercent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }
std::string SignedPercent(double share) { return absl::StrFormat("%+.1f %%", 100 * share); }

std::vector<std::string> ErrorCells(const std::string& name,
                                    const planner::ErrorStatistics& errors) {
  return {name,
          absl::StrCat(errors.count),
          ErrorPercent(errors.mean_absolute),
          SignedPercent(errors.bias),
          SignedPercent(errors.worst),
          errors.worst_id};
}

std::string GroupTable(const std::string& what, const std::vector<planner::GroupErrors>& groups) {
  std::vector<std::vector<std::string>> rows;
  for (const planner::GroupErrors& group : groups)
    rows.push_back(ErrorCells(group.name, group.errors));
  return FormatTable({what, "RUNS", "MAPE", "BIAS", "WORST", "RUN"}, rows);
}

std::string GridTable(const std::vector<planner::GridRanking>& grids) {
  std::map<std::string, std::vector<planner::GridRanking>> sources;
  for (const planner::GridRanking& grid : grids) {
    sources[grid.name.substr(0, grid.name.find(' '))].push_back(grid);
  }
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, int runs, double rank, double regret, double mape) {
    rows.push_back({name, absl::StrCat(runs), absl::StrFormat("%.2f", rank), ErrorPercent(regret),
                    ErrorPercent(mape)});
  };
  for (const auto& [source, of_source] : sources) {
    planner::GridRanking mean;
    const double share = 1.0 / static_cast<double>(of_source.size());
    for (const planner::GridRanking& grid : of_source) {
      if (of_source.size() <= kMostGrids) {
        add(grid.name, grid.count, grid.rank_correlation, grid.regret, grid.mean_absolute);
      }
      mean.count += grid.count;
      mean.rank_correlation += grid.rank_correlation * share;
      mean.regret += grid.regret * share;
      mean.mean_absolute += grid.mean_absolute * share;
    }
    if (of_source.size() > kMostGrids) {
      add(absl::StrCat(source, ", mean of ", of_source.size(), " grids"), mean.count,
          mean.rank_correlation, mean.regret, mean.mean_absolute);
    }
  }
  return FormatTable({"GRID", "RUNS", "SPEARMAN", "REGRET", "MAPE"}, rows);
}

Json ErrorJson(const planner::ErrorStatistics& errors) {
  return {{"count", errors.count},
          {"mean_absolute", errors.mean_absolute},
          {"bias", errors.bias},
          {"worst", errors.worst},
          {"worst_id", errors.worst_id}};
}

Json GroupJson(const std::vector<planner::GroupErrors>& groups) {
  Json list = Json::array();
  for (const planner::GroupErrors& group : groups) {
    Json one = {{"name", group.name}};
    one.update(ErrorJson(group.errors));
    list.push_back(std::move(one));
  }
  return list;
}

Json TermsJson(const planner::StepTerms& terms) {
  return {{"products", terms.products},
          {"attention", terms.attention},
          {"memory_bound", terms.memory_bound},
          {"launch", terms.launch},
          {"tensor", terms.tensor},
          {"context", terms.context},
          {"pipeline_messages", terms.pipeline_messages},
          {"bubble", terms.bubble},
          {"data", terms.data},
          {"optimizer", terms.optimizer},
          {"offload", terms.offload},
          {"overhead", terms.overhead},
          {"straggler", terms.straggler}};
}

Json RowJson(const planner::MeasuredRun& run, const planner::RunPrediction& prediction) {
  Json row = {{"id", run.id}, {"source", run.source}};
  const bool predicted = prediction.step.has_value();
  row["predicted_seconds"] = predicted ? Json(prediction.step->seconds) : Json(nullptr);
  row["predicted_memory_bytes"] = predicted ? Json(prediction.step->memory_bytes) : Json(nullptr);
  row["measured_seconds"] = run.seconds.has_value() ? Json(*run.seconds) : Json(nullptr);
  row["terms"] = predicted ? TermsJson(prediction.step->terms) : Json(nullptr);
  row["calibration"] = predicted ? Json(prediction.calibration) : Json(nullptr);
  row["reason"] = predicted ? Json(nullptr) : Json(prediction.reason);
  return row;
}

}  // namespace

std::string EvaluationText(const std::vector<planner::MeasuredRun>& runs,
                           const planner::Evaluation& evaluation) {
  std::string text = GroupTable("SOURCE", evaluation.by_source);
  absl::StrAppend(&text, "\nEach source once:\n", GroupTable("PRECISION", evaluation.by_precision),
                  "\n", GroupTable("GPU", evaluation.by_gpu));
  if (!evaluation.grids.empty()) absl::StrAppend(&text, "\n", GridTable(evaluation.grids));
  std::vector<std::vector<std::string>> others;
  if (evaluation.indirect.count > 0) {
    others.push_back(ErrorCells("seconds derived from FLOP/s", evaluation.indirect));
  }
  if (evaluation.memory.count > 0) others.push_back(ErrorCells("memory", evaluation.memory));
  if (!others.empty()) {
    absl::StrAppend(&text, "\n",
                    FormatTable({"ALSO", "RUNS", "MAPE", "BIAS", "WORST", "RUN"}, others));
  }
  std::map<std::string, int> reasons;
  for (size_t i = 0; i < runs.size(); ++i) {
    const planner::RunPrediction& prediction = evaluation.predictions[i];
    if (!prediction.step.has_value()) ++reasons[prediction.reason];
  }
  for (const auto& [reason, count] : reasons) {
    absl::StrAppend(&text, "\nnot predicted: ", count, " runs, ", reason);
  }
  if (!reasons.empty()) text += "\n";
  return text;
}

Json ToJson(const std::vector<planner::MeasuredRun>& runs, const planner::Evaluation& evaluation) {
  Json rows = Json::array(), grids = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    rows.push_back(RowJson(runs[i], evaluation.predictions[i]));
  }
  for (const planner::GridRanking& grid : evaluation.grids) {
    grids.push_back({{"name", grid.name},
                     {"count", grid.count},
                     {"spearman", grid.rank_correlation},
                     {"regret", grid.regret},
                     {"mean_absolute", grid.mean_absolute}});
  }
  return {{"rows", std::move(rows)},
          {"by_source", GroupJson(evaluation.by_source)},
          {"by_precision", GroupJson(evaluation.by_precision)},
          {"by_gpu", GroupJson(evaluation.by_gpu)},
          {"by_source_gpu_precision", GroupJson(evaluation.by_source_and_precision)},
          {"grids", std::move(grids)},
          {"indirect", ErrorJson(evaluation.indirect)},
          {"memory", ErrorJson(evaluation.memory)}};
}

}  // namespace strata::client
