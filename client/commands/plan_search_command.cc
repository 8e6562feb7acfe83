// strata plan: the fastest layouts of a model on so many devices, and why.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/planning/plan_answer.h"
#include "client/planning/plan_request.h"
#include "client/views/plan_view.h"
#include "planner/performance/catalog.h"
#include "planner/search/replay.h"
#include "planner/search/search.h"

namespace strata::client {
namespace {

// Of a job's ranks, by the programs that they would run on this machine.
int PlanJob(const Arguments& arguments, Terminal& terminal) {
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  options.ranks = arguments.Count("--devices");
  const absl::StatusOr<RankedLayouts> ranked = RankLayoutsOf(
      arguments.positional()[0], options, DeciderHere(arguments.Text("--profile"), terminal));
  if (!ranked.ok()) return Fail(ranked.status(), terminal);
  if (!ranked->notice.empty()) {
    terminal.Say(ranked->notice);
  }
  const auto top = static_cast<size_t>(arguments.Count("--top").value_or(5));
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(output == "table" ? LayoutsText(ranked->candidates, top)
                                 : ToText(LayoutsJson(ranked->candidates, top), output));
  return ranked->candidates.front().fits ? kExitDone : kExitInfeasible;
}

// Whether all flags go with what is asked about: a job file, or a model.
bool FlagsGoTogether(const Arguments& arguments, Terminal& terminal) {
  const bool of_job = !arguments.positional().empty();
  if (arguments.Has("--model") == of_job) {
    terminal.Error("strata plan: give a job file, or --model NAME and --global-batch N");
    return false;
  }
  const std::vector<const char*> of_model = {
      "--global-batch", "--device",    "--topology", "--seq",        "--pin",
      "--vary",         "--precision", "--price",    "--rank",       "--tokens",
      "--no-offload",   "--framework", "--replay",   "--host-memory"};
  const std::vector<const char*> of_file = {"--set", "--profile"};
  bool good = true;
  for (const char* flag : of_job ? of_model : of_file) {
    if (!arguments.Has(flag)) continue;
    good = false;
    terminal.Error(absl::StrCat(flag, of_job ? ": goes with --model — of a job file, change the "
                                               "key: --set PATH=VALUE"
                                             : ": goes with a job file, not with --model"));
  }
  return good;
}

// Unasked, so many passes of all plans together, and ranks of data of one: a moment.
constexpr int64_t kQuickPasses = 512, kQuickData = 512;

// Of the plans that are shown, where the question is one and the steps are Strata's own; unasked,
// where it takes a moment.
Replays ReplaysOf(const LoadedPlan& plan, const std::vector<PlanAnswer>& answers, bool asked) {
  Replays replays;
  if (answers.size() > 1 || plan.software != planner::kOwnFramework) return replays;
  const planner::SearchRequest& request = answers.front().question.request;
  const std::vector<planner::RankedPlan>& plans = answers.front().result.plans;
  int64_t passes = 0, data = 0;
  for (const planner::RankedPlan& ranked : plans) {
    passes += planner::PassesOf(request.shape, ranked.layout);
    data = std::max(data, ranked.layout.data);
  }
  if (!asked && (passes > kQuickPasses || data > kQuickData)) return replays;
  for (const planner::RankedPlan& ranked : plans) {
    replays.push_back(planner::ReplayPlan(request.machine, plan.model.spec, request.shape, ranked));
  }
  return replays;
}

int PlanModel(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<LoadedPlan> plan = LoadPlan(arguments);
  if (!plan.ok()) return Fail(plan.status(), terminal);
  if (arguments.Has("--replay") &&
      (plan->questions.size() > 1 || plan->software != planner::kOwnFramework)) {
    terminal.Error("--replay: walks Strata's own programs, of one question — leave out " +
                   std::string(plan->questions.size() > 1 ? "--vary" : "--framework"));
    return kExitUsage;
  }
  if (!plan->notice.empty()) terminal.Say(plan->notice);
  std::vector<PlanAnswer> answers = AnswersOf(*plan, arguments.Has("--replay"));
  if (arguments.Has("--rank")) {
    const absl::StatusOr<std::string> note = RankAnswers(arguments.Text("--rank"), answers);
    if (!note.ok()) return Fail(note.status(), terminal);
    if (!note->empty()) terminal.Say(*note);
  }
  if (answers.size() == 1 && !answers.front().why_none.empty()) {
    terminal.Error(answers.front().why_none);
    return kExitInfeasible;
  }
  const Replays replays = ReplaysOf(*plan, answers, arguments.Has("--replay"));
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(output == "table" ? PlanText(*plan, answers, replays, terminal.options().unicode)
                                 : ToText(ToJson(*plan, answers, replays), output));
  const bool fits = std::any_of(answers.begin(), answers.end(), [](const PlanAnswer& answer) {
    return !answer.result.plans.empty();
  });
  return fits ? kExitDone : kExitInfeasible;
}

int PlanLayouts(const Arguments& arguments, Terminal& terminal) {
  if (!FlagsGoTogether(arguments, terminal)) return kExitUsage;
  return arguments.positional().empty() ? PlanModel(arguments, terminal)
                                        : PlanJob(arguments, terminal);
}

}  // namespace

Command PlanCommand() {
  Command command;
  command.name = "plan";
  command.usage = "JOB.yaml | --model NAME --global-batch N [--devices N] [--topology FILE]";
  command.summary = "The fastest layouts of a job here, or of a model on so many devices, and why";
  command.most_arguments = 1;
  command.flags = PlanFlags();
  command.outputs = {"table", "json", "yaml"};
  command.run = PlanLayouts;
  return command;
}

}  // namespace strata::client
