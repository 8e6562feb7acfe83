#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/checkpoint_source.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "client/task_runner.h"
#include "client/terminal/table.h"
#include "common/status_macros.h"
#include "data/token_source.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using strata::v1::EvalResult;
using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;

// The file that takes the place of `path` once it is complete; `path` itself when that is no
// regular file.
std::string WrittenFirst(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);  // a link stays one
  return absl::StrCat(error ? path : target.string(), ".", getpid(), ".partial");
}

// Puts the complete file in its place, or takes away what there is of it. Returns the exit code.
int Finish(const std::string& written, int code, Terminal& terminal) {
  const std::string suffix = absl::StrCat(".", getpid(), ".partial");
  if (!absl::EndsWith(written, suffix)) return code;
  const std::string path = written.substr(0, written.size() - suffix.size());
  std::error_code error;
  if (code == kExitDone) fs::rename(written, path, error);
  if (code == kExitDone && !error) return code;
  std::error_code ignored;
  fs::remove(written, ignored);
  if (code != kExitDone) return code;
  terminal.Error(absl::StrCat(path, ": cannot be replaced (", error.message(), ")"));
  return kExitFailed;
}

absl::StatusOr<StandaloneRequest> PrepareEval(const Arguments& arguments) {
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_EVALUATE);
  ASSIGN_OR_RETURN(*request.mutable_checkpoint_path(), FindCheckpoint(arguments.Text("--from")));
  const std::string text = Absolute(arguments.Text("--data"));
  RETURN_IF_ERROR(CheckPathText("--data", text));
  request.set_data_path(text);
  if (const auto source = data::OpenTokenSource(request.data_path()); !source.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", absl::string_view(source.status().message())));
  }
  const std::string logits = arguments.Text("--dump-logits");
  if (!logits.empty()) {
    RETURN_IF_ERROR(CheckPathText("--dump-logits", Absolute(logits)));
    RETURN_IF_ERROR(CheckWritableFile(logits));
    request.set_dump_logits_path(WrittenFirst(Absolute(logits)));
    RETURN_IF_ERROR(CheckWritableFile(request.dump_logits_path()));
  }
  request.set_ranks(arguments.Count("--ranks").value_or(1));
  request.set_threads_per_rank(ThreadsPerRank(request.ranks()));
  request.set_sequence(arguments.Count("--sequence").value_or(0));
  return request;
}

std::string Format(const EvalResult& result, const std::string& output) {
  if (output == "json") {
    const nlohmann::json json = {
        {"loss", result.loss()}, {"perplexity", result.perplexity()}, {"tokens", result.tokens()}};
    return json.dump(2) + "\n";
  }
  const std::string loss = absl::StrFormat("%.6f", result.loss());
  const std::string perplexity = absl::StrFormat("%.6g", result.perplexity());
  const std::string tokens = absl::StrCat(result.tokens());
  if (output == "yaml") {
    return absl::StrCat("loss: ", loss, "\nperplexity: ", perplexity, "\ntokens: ", tokens, "\n");
  }
  return FormatTable({"LOSS", "PERPLEXITY", "TOKENS"}, {{loss, perplexity, tokens}});
}

int Evaluate(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<StandaloneRequest> request = PrepareEval(arguments);
  if (!request.ok()) return Fail(request.status(), terminal);
  const int code = RunTask(*request, terminal, [&](const StandaloneEvent& event) {
    if (event.has_result()) {
      terminal.Out(Format(event.result(), arguments.Text("--output", "table")));
    }
  });
  return Finish(request->dump_logits_path(), code, terminal);
}

}  // namespace

Command EvalCommand() {
  Command command;
  command.name = "eval";
  command.usage =
      "--from CHECKPOINT --data FILE [--sequence N] [--dump-logits F.safetensors] [--ranks N]";
  command.summary = "Measure the loss and perplexity of a trained model on a file";
  command.flags = {
      {"--from", Flag::Kind::kText, "CHECKPOINT", "a step-N folder, or a directory of them"},
      {"--data", Flag::Kind::kText, "FILE", "the text"},
      {"--sequence", Flag::Kind::kCount, "N", "window length (default: the training's)", "", 1,
       1 << 30},
      {"--dump-logits", Flag::Kind::kText, "F.safetensors", "write all logits there"},
      {"--ranks", Flag::Kind::kCount, "N", "processes that share the layers (default: 1)", "", 1,
       1024},
      {"--precision",
       Flag::Kind::kWord,
       "TYPE",
       "of the computation (default: f32)",
       "",
       0,
       0,
       {"f32"}},
  };
  command.flags[0].required = true;
  command.flags[1].required = true;
  command.outputs = {"table", "json", "yaml"};
  command.run = Evaluate;
  return command;
}

}  // namespace strata::client
