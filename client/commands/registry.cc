#include "client/commands/registry.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/command_line/parser.h"
#include "client/exit_codes.h"

namespace strata::client {
namespace {

constexpr char kVersion[] = "0.1.0";

}  // namespace

const std::vector<Command>& AllCommands() {
  static const auto& commands = *[] {
    auto* all = new std::vector<Command>{
        RunCommand(),          GenerateCommand(), EvalCommand(),  ExportCommand(),
        TopologyCommand(),     PlaceCommand(),    FitCommand(),   PlanCommand(),
        PlanEvaluateCommand(), SimulateCommand(), TraceCommand(), CalibrateCommand(),
        DoctorCommand()};
    for (Command& command : DataCommands()) all->push_back(std::move(command));
    for (Command& command : ClusterCommands()) all->push_back(std::move(command));
    return all;
  }();
  return commands;
}

int Fail(const absl::Status& status, Terminal& terminal) {
  terminal.Error(std::string(status.message()));
  return ExitCodeOf(status);
}

int RunCommandLine(const std::vector<std::string>& typed, Terminal& terminal) {
  if (typed.empty()) {
    terminal.Error(HelpOf(AllCommands()));
    return kExitUsage;
  }
  // `data` is the first word of names of two, `plan` that of one.
  const bool two_words = typed.size() > 1 && ((typed[0] == "data" && typed[1][0] != '-') ||
                                              (typed[0] == "plan" && typed[1] == "evaluate"));
  const std::string name = two_words ? absl::StrCat(typed[0], " ", typed[1]) : typed[0];
  if (name == "help" && typed.size() > 1) {
    std::vector<std::string> asked(typed.begin() + 1, typed.end());
    asked.emplace_back("--help");
    return RunCommandLine(asked, terminal);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    terminal.Out(HelpOf(AllCommands()));
    return kExitDone;
  }
  if (name == "--version" || name == "version") {
    terminal.Out(absl::StrCat("strata ", kVersion, "\n"));
    return kExitDone;
  }
  if (name == "data") {
    const char* text = "strata data: say what to do — strata data prepare, or strata data show\n";
    const bool asked = typed.size() > 1 && (typed[1] == "--help" || typed[1] == "-h");
    asked ? terminal.Out(text) : terminal.Error(text);
    return asked ? kExitDone : kExitUsage;
  }
  const absl::StatusOr<const Command*> command = FindCommand(AllCommands(), name);
  if (!command.ok()) return Fail(command.status(), terminal);
  const absl::StatusOr<Arguments> arguments =
      ParseArguments(**command, {typed.begin() + (two_words ? 2 : 1), typed.end()});
  if (!arguments.ok()) return Fail(arguments.status(), terminal);
  if (arguments->Has("--no-color")) terminal.set_colorless();
  if (arguments->Has("--quiet")) terminal.set_quiet();
  if (arguments->Has("--help")) {
    terminal.Out(HelpOf(**command));
    return kExitDone;
  }
  const int code = (*command)->run(*arguments, terminal);
  if (terminal.out_error() == 0) return code;
  terminal.Error(absl::StrCat("strata ", name, ": standard output could not be written (",
                              std::strerror(terminal.out_error()), "): it is incomplete"));
  return code == kExitDone ? kExitFailed : code;
}

}  // namespace strata::client
