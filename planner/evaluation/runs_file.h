// Measured training runs, one a row, as published tables give them.
#ifndef STRATA_PLANNER_EVALUATION_RUNS_FILE_H_
#define STRATA_PLANNER_EVALUATION_RUNS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/performance/catalog.h"
#include "planner/performance/shape.h"

namespace strata::planner {

struct MeasuredRun {
  std::string id;
  std::string source;  // where it was published: also the release
  std::string model;
  int64_t devices = 0;
  MachineRequest machine;
  TrainingShape shape;
  LayoutChoice layout;
  bool data_overlap = true;  // false: the row says that there is none
  // Not empty: the row lacks something or contradicts itself, and cannot be predicted.
  std::string reason;

  std::optional<double> seconds;  // measured, of one step
  // Whether the seconds were reported, or follow from tokens per second: others are estimates.
  bool direct = false;
  std::optional<double> memory_bytes;  // measured, of the fullest device
};

// Columns by name, in any order; docs/benchmarks/planner.md lists them. Fields may be empty.
// InvalidArgument with FILE:LINE:COLUMN for each problem: malformed records, missing columns,
// fields that are no numbers.
absl::StatusOr<std::vector<MeasuredRun>> ReadRuns(absl::string_view text, absl::string_view file);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_EVALUATION_RUNS_FILE_H_
