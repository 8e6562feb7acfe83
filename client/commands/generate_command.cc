#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/checkpoint_source.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/machine.h"
#include "client/task_runner.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;

constexpr int64_t kDefaultTokens = 200;
constexpr double kDefaultTemperature = 0.8;

absl::StatusOr<StandaloneRequest> PrepareGenerate(const Arguments& arguments) {
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_GENERATE);
  ASSIGN_OR_RETURN(*request.mutable_checkpoint_path(), FindCheckpoint(arguments.Text("--from")));
  request.set_ranks(arguments.Count("--ranks").value_or(1));
  request.set_threads_per_rank(ThreadsPerRank(request.ranks()));
  request.set_prompt(arguments.Text("--prompt"));
  request.set_tokens(arguments.Count("--tokens").value_or(kDefaultTokens));
  request.set_temperature(arguments.Number("--temperature").value_or(kDefaultTemperature));
  request.set_seed(arguments.Count("--seed").value_or(1));
  return request;
}

int Generate(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<StandaloneRequest> request = PrepareGenerate(arguments);
  if (!request.ok()) return Fail(request.status(), terminal);
  const bool as_json = arguments.Text("--output") == "json";
  std::string text;
  bool begun = false;  // nothing is printed of a generation that fails before its first token
  const int code = RunTask(*request, terminal, [&](const StandaloneEvent& event) {
    if (!event.has_text()) return;
    if (!as_json && !std::exchange(begun, true)) terminal.Out(request->prompt());
    if (as_json) {
      text += event.text().text();
    } else {
      terminal.Out(event.text().text());
    }
  });
  if (!as_json) {
    if (begun) terminal.Out("\n");
  } else if (code == kExitDone) {
    const nlohmann::json result = {{"prompt", request->prompt()}, {"text", text}};
    // Neither need be UTF-8: what is not becomes U+FFFD.
    terminal.Out(result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return code;
}

}  // namespace

Command GenerateCommand() {
  Command command;
  command.name = "generate";
  command.usage =
      "--from CHECKPOINT --prompt TEXT [--tokens N] [--temperature T] [--seed S] [--ranks N]";
  command.summary = "Continue a text with a trained model";
  command.flags = {
      {"--from", Flag::Kind::kText, "CHECKPOINT", "a step-N folder, or a directory of them"},
      {"--prompt", Flag::Kind::kText, "TEXT", "the text to continue"},
      {"--tokens", Flag::Kind::kCount, "N", "tokens to generate (default: 200)", "", 1, 1 << 30},
      {"--temperature", Flag::Kind::kNumber, "T", "0: always the likeliest (default: 0.8)", "", 0,
       1000},
      {"--seed", Flag::Kind::kCount, "S", "of the sampling (default: 1)", "", 0, 9e18},
      {"--ranks", Flag::Kind::kCount, "N", "processes that share the layers (default: 1)", "", 1,
       1024},
  };
  command.flags[0].required = true;
  command.flags[1].required = true;
  command.flags[1].may_be_empty = true;  // then the model begins by itself
  command.outputs = {"table", "json"};
  command.run = Generate;
  return command;
}

}  // namespace strata::client
