#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/commands/registry.h"
#include "client/doctor/checks.h"
#include "client/doctor/gpus.h"
#include "client/doctor/overlap.h"
#include "client/doctor/rates.h"
#include "client/exit_codes.h"
#include "client/machine_profile.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

std::string AsJson(const std::vector<Finding>& findings) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"name", finding.name},
                      {"status", NameOf(finding.health)},
                      {"value", finding.value},
                      {"advice", finding.advice}});
  }
  const nlohmann::json whole = {{"checks", checks}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int Doctor(const Arguments& arguments, Terminal& terminal) {
  std::vector<Finding> findings = Judge(ReadMachine());
  for (Finding& finding : JudgeGpus(ReadGpus())) findings.push_back(std::move(finding));
  for (Finding& finding : JudgeRates(LoadProfile(""))) findings.push_back(std::move(finding));
  if (!arguments.Has("--quick")) {
    terminal.Transient("two ranks train for a moment …");
    const OverlapFacts overlap = MeasureOverlap();
    if (overlap.interrupted) return kExitInterrupted;
    findings.push_back(JudgeArenas(overlap.arenas));
    findings.push_back(JudgeOverlap(overlap));
  }
  bool failed = false;
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    failed |= finding.health == Health::kFailure;
    const Style style = finding.health == Health::kOk        ? Style::kGood
                        : finding.health == Health::kWarning ? Style::kWarning
                                                             : Style::kBad;
    rows.push_back({terminal.Paint(style, NameOf(finding.health)), finding.name, finding.value});
    if (!finding.advice.empty()) rows.push_back({"", "", "→ " + finding.advice});
  }
  if (arguments.Text("--output") == "json") {
    terminal.Out(AsJson(findings));
  } else {
    terminal.Out(FormatTable({"STATUS", "CHECK", "FOUND"}, rows));
  }
  return failed ? kExitFailed : kExitDone;
}

}  // namespace

Command DoctorCommand() {
  Command command;
  command.name = "doctor";
  command.usage = "[--quick]";
  command.summary = "Say what this machine has and lacks for Strata, and what to do about it";
  command.flags = {
      {"--quick", Flag::Kind::kSwitch, "",
       "look only; otherwise two ranks train for some seconds: does communication hide, where do "
       "pages lie?"}};
  command.outputs = {"table", "json"};
  command.run = Doctor;
  return command;
}

}  // namespace strata::client
