#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/huggingface/model_folder.h"
#include "client/checkpoint_job.h"
#include "client/checkpoint_source.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/inference_flags.h"
#include "client/job_loading.h"
#include "client/prepared_data.h"
#include "client/task_runner.h"
#include "client/terminal/table.h"
#include "common/status_macros.h"

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

// The folder of the tokenizer that the model reads text with; empty: text is bytes.
absl::StatusOr<std::string> TokenizerOf(const Arguments& arguments, const std::string& checkpoint) {
  if (arguments.Has("--tokenizer")) return Absolute(arguments.Text("--tokenizer"));
  ASSIGN_OR_RETURN(const v1::JobSpec job, JobOfCheckpoint(checkpoint));
  if (!job.data().has_tokenizer()) {
    RETURN_IF_ERROR(checkpoint::CheckTokenizerForm(job.model().from()));
  }
  return job.data().tokenizer();
}

// The token file of what --data names: itself, or what is made of it.
absl::StatusOr<std::string> DataOf(const Arguments& arguments, const std::string& checkpoint,
                                   Terminal& terminal) {
  const std::string path = Absolute(arguments.Text("--data"));
  RETURN_IF_ERROR(CheckPathText("--data", path));
  // Records, or text that a tokenizer may have to read.
  const absl::StatusOr<bool> is_text = NeedsPreparation(path, /*has_tokenizer=*/true);
  if (!is_text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", absl::string_view(is_text.status().message())));
  }
  if (!*is_text) return path;
  ASSIGN_OR_RETURN(const std::string folder, TokenizerOf(arguments, checkpoint));
  ASSIGN_OR_RETURN(const bool needed, NeedsPreparation(path, !folder.empty()));
  if (!needed) return path;
  TokenFileCache cache(folder, /*folder=*/"", terminal);
  ASSIGN_OR_RETURN(const TokenFileCache::Entry entry, cache.Get(path));
  return entry.path;
}

absl::StatusOr<StandaloneRequest> PrepareEval(const Arguments& arguments, Terminal& terminal) {
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_EVALUATE);
  ASSIGN_OR_RETURN(*request.mutable_checkpoint_path(), FindCheckpoint(arguments.Text("--from")));
  ASSIGN_OR_RETURN(*request.mutable_data_path(),
                   DataOf(arguments, request.checkpoint_path(), terminal));
  const std::string logits = arguments.Text("--dump-logits");
  if (!logits.empty()) {
    RETURN_IF_ERROR(CheckPathText("--dump-logits", Absolute(logits)));
    RETURN_IF_ERROR(CheckWritableFile(logits));
    request.set_dump_logits_path(WrittenFirst(Absolute(logits)));
    RETURN_IF_ERROR(CheckWritableFile(request.dump_logits_path()));
  }
  request.set_sequence(arguments.Count("--sequence").value_or(0));
  RETURN_IF_ERROR(SetInference(arguments, request));
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
  const absl::StatusOr<StandaloneRequest> request = PrepareEval(arguments, terminal);
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
      "--from CHECKPOINT|DIR --data FILE [--tokenizer DIR] [--sequence N] [--dump-logits "
      "F.safetensors] "
      "[--ranks N] [--precision f32|bf16|f16] [--device cpu|gpu]";
  command.summary = "Measure the loss and perplexity of a trained model on a file";
  command.flags = {
      {"--from", Flag::Kind::kText, "CHECKPOINT|DIR",
       "a step-N folder, a directory of them, or a Hugging Face directory"},
      {"--data", Flag::Kind::kText, "FILE", "text, .jsonl, or a token file"},
      {"--tokenizer", Flag::Kind::kText, "DIR",
       "that the text is read with (default: the job's, or DIR's)"},
      {"--sequence", Flag::Kind::kCount, "N",
       "window length (default: the training's; of DIR 1024 at most)", "", 1, 1 << 30},
      {"--dump-logits", Flag::Kind::kText, "F.safetensors", "write all logits there"},
  };
  for (Flag& flag : InferenceFlags()) command.flags.push_back(std::move(flag));
  command.flags[0].required = true;
  command.flags[1].required = true;
  command.outputs = {"table", "json", "yaml"};
  command.run = Evaluate;
  return command;
}

}  // namespace strata::client
