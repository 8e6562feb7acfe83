// strata plan evaluate: how far predicted step times are from measured ones.
#include <string>
#include <vector>

#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/text_file.h"
#include "client/views/evaluation_view.h"
#include "planner/evaluation/evaluation.h"
#include "planner/evaluation/runs_file.h"

namespace strata::client {
namespace {

constexpr size_t kMostRunsBytes = size_t{256} << 20;

int EvaluatePlans(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.Text("--runs");
  const absl::StatusOr<std::string> text = ReadTextFile(path, kMostRunsBytes, "file of runs");
  if (!text.ok()) return Fail(text.status(), terminal);
  const absl::StatusOr<std::vector<planner::MeasuredRun>> runs = planner::ReadRuns(*text, path);
  if (!runs.ok()) return Fail(runs.status(), terminal);
  const planner::Evaluation evaluation = planner::Evaluate(planner::Catalog::Shipped(), *runs);
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(output == "table" ? EvaluationText(*runs, evaluation)
                                 : ToText(ToJson(*runs, evaluation), output));
  return kExitDone;
}

}  // namespace

Command PlanEvaluateCommand() {
  Command command;
  command.name = "plan evaluate";
  command.usage = "--runs FILE.csv";
  command.summary = "How far predicted step times and memory are from measured runs";
  Flag runs = {"--runs", Flag::Kind::kText, "FILE.csv",
               "measured runs, one a row; docs/benchmarks/planner.md lists the columns"};
  runs.required = true;
  command.flags = {runs};
  command.outputs = {"table", "json", "yaml"};
  command.run = EvaluatePlans;
  return command;
}

}  // namespace strata::client
