#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/model_folder.h"
#include "client/checkpoint_job.h"
#include "client/checkpoint_source.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/inference_flags.h"
#include "client/job_loading.h"
#include "client/prompt.h"
#include "client/task_runner.h"
#include "common/status_macros.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::client {
namespace {

using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;

constexpr int64_t kDefaultTokens = 200;
constexpr double kDefaultTemperature = 0.8;

using data::Tokenizer;

// The model's tokenizer; null: it reads bytes.
absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const Arguments& arguments,
                                                               const v1::JobSpec& job) {
  const std::string folder = arguments.Has("--tokenizer") ? Absolute(arguments.Text("--tokenizer"))
                                                          : job.data().tokenizer();
  if (folder.empty()) {
    RETURN_IF_ERROR(checkpoint::CheckTokenizerForm(job.model().from()));
    return std::shared_ptr<const Tokenizer>();
  }
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tokenizer: ", absl::string_view(tokenizer.status().message()), "\n"));
  }
  // As in job files, a published model's tokenizer may hold a few tokens more.
  if (job.model().has_vocab() && !job.model().has_from() &&
      (*tokenizer)->vocabulary() > job.model().vocab()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tokenizer ", folder, ": has ", (*tokenizer)->vocabulary(),
                     " tokens, the model's vocabulary ", job.model().vocab(),
                     " — name the tokenizer that the model was trained with\n"));
  }
  return tokenizer;
}

// `published`: the model began as a Hugging Face directory, whose texts begin as its tokenizer's
// file says; those of models from scratch as their training's.
absl::Status SetPrompt(const Arguments& arguments, const Tokenizer* tokenizer, bool published,
                       StandaloneRequest& request) {
  const PromptText prompt{arguments.Text("--prompt"), arguments.Has("--chat"),
                          arguments.Text("--system"), published};
  if (!prompt.chat && !prompt.system.empty()) {
    return absl::InvalidArgumentError("--system: belongs to --chat\n");
  }
  if (tokenizer == nullptr) {
    if (prompt.chat) {
      return absl::InvalidArgumentError(
          "--chat: the model reads bytes — name the folder of a tokenizer with --tokenizer\n");
    }
    request.set_prompt(prompt.text);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const PromptTokens tokens, EncodePrompt(*tokenizer, prompt));
  request.mutable_prompt_tokens()->Add(tokens.tokens.begin(), tokens.tokens.end());
  request.mutable_stop_tokens()->Add(tokens.stop.begin(), tokens.stop.end());
  return absl::OkStatus();
}

absl::StatusOr<StandaloneRequest> PrepareGenerate(const Arguments& arguments,
                                                  std::shared_ptr<const Tokenizer>* tokenizer) {
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_GENERATE);
  ASSIGN_OR_RETURN(*request.mutable_checkpoint_path(), FindCheckpoint(arguments.Text("--from")));
  // Without a job the worker says what is wrong with the checkpoint.
  const v1::JobSpec job = JobOfCheckpoint(request.checkpoint_path()).value_or(v1::JobSpec());
  ASSIGN_OR_RETURN(*tokenizer, LoadTokenizer(arguments, job));
  RETURN_IF_ERROR(SetPrompt(arguments, tokenizer->get(), job.model().has_from(), request));
  request.set_tokens(arguments.Count("--tokens").value_or(kDefaultTokens));
  request.set_temperature(arguments.Number("--temperature").value_or(kDefaultTemperature));
  request.set_top_k(arguments.Count("--top-k").value_or(0));
  request.set_top_p(arguments.Number("--top-p").value_or(0));
  request.set_seed(arguments.Count("--seed").value_or(1));
  RETURN_IF_ERROR(SetInference(arguments, request));
  return request;
}

// Turns the worker's events into text, and counts.
class Reply {
 public:
  Reply(const StandaloneRequest& request, std::shared_ptr<const Tokenizer> tokenizer)
      : stop_(request.stop_tokens().begin(), request.stop_tokens().end()) {
    if (tokenizer != nullptr) decoder_.emplace(std::move(tokenizer), /*skip_special=*/true);
  }

  // The further text; a token that stops it has none.
  std::string Add(const v1::GeneratedText& event) {
    if (!decoder_) {
      tokens_ += static_cast<int64_t>(event.text().size());
      return event.text();
    }
    std::string text;
    for (const int32_t token : event.tokens()) {
      stopped_ = stopped_ || std::find(stop_.begin(), stop_.end(), token) != stop_.end();
      if (stopped_) break;
      ++tokens_;
      text += decoder_->Add(token);
    }
    return text;
  }
  std::string Finish() { return decoder_ ? decoder_->Finish() : std::string(); }
  int64_t tokens() const { return tokens_; }
  const char* reason() const { return stopped_ ? "stop" : "length"; }

 private:
  const std::vector<int32_t> stop_;
  std::optional<data::StreamDecoder> decoder_;  // absent: tokens are bytes
  int64_t tokens_ = 0;
  bool stopped_ = false;
};

int Generate(const Arguments& arguments, Terminal& terminal) {
  std::shared_ptr<const Tokenizer> tokenizer;
  const absl::StatusOr<StandaloneRequest> request = PrepareGenerate(arguments, &tokenizer);
  if (!request.ok()) return Fail(request.status(), terminal);
  const bool as_json = arguments.Text("--output") == "json";
  // An answer stands alone, a text after what it goes on from.
  const std::string prompt = arguments.Text("--prompt");
  Reply reply(*request, tokenizer);
  std::string text;
  bool begun = false;  // nothing is printed of a generation that fails before its first token
  const auto show = [&](const std::string& more) {
    if (as_json) {
      text += more;
    } else {
      terminal.Out(more);
    }
  };
  const int code = RunTask(*request, terminal, [&](const StandaloneEvent& event) {
    if (!event.has_text()) return;
    if (!std::exchange(begun, true) && !as_json && !arguments.Has("--chat")) terminal.Out(prompt);
    show(reply.Add(event.text()));
  });
  if (begun) show(reply.Finish());
  if (!as_json) {
    if (begun) terminal.Out("\n");
  } else if (code == kExitDone) {
    const bool bytes = tokenizer == nullptr;
    const nlohmann::json result = {{"prompt", prompt},
                                   {"text", text},
                                   {"prompt_tokens", bytes ? static_cast<int64_t>(prompt.size())
                                                           : request->prompt_tokens_size()},
                                   {"tokens", reply.tokens()},
                                   {"finish_reason", reply.reason()}};
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
      "--from CHECKPOINT|DIR --prompt TEXT [--chat [--system TEXT]] [--tokens N] [--temperature T] "
      "[--top-k K] [--top-p P] [--seed S] [--tokenizer DIR] [--ranks N] [--precision f32|bf16|f16] "
      "[--device cpu|gpu]";
  command.summary = "Continue a text with a trained model";
  command.flags = {
      {"--from", Flag::Kind::kText, "CHECKPOINT|DIR",
       "a step-N folder, a directory of them, or a Hugging Face directory"},
      {"--prompt", Flag::Kind::kText, "TEXT", "the text to continue"},
      {"--tokens", Flag::Kind::kCount, "N", "tokens to generate (default: 200)", "", 1, 1 << 30},
      {"--temperature", Flag::Kind::kNumber, "T", "0: always the likeliest (default: 0.8)", "", 0,
       1000},
      {"--top-k", Flag::Kind::kCount, "K", "among the K likeliest tokens only (default: all)", "",
       0, 1 << 30},
      {"--top-p", Flag::Kind::kNumber, "P",
       "among the fewest likeliest tokens that have probability P (default: all)", "", 0, 1},
      {"--chat", Flag::Kind::kSwitch, "", "the prompt is a user's turn, which the model answers"},
      {"--system", Flag::Kind::kText, "TEXT", "what a chat begins with"},
      {"--tokenizer", Flag::Kind::kText, "DIR", "of the model (default: the job's, or DIR's)"},
      {"--seed", Flag::Kind::kCount, "S", "of the sampling (default: 1)", "", 0, 9e18},
  };
  for (Flag& flag : InferenceFlags()) command.flags.push_back(std::move(flag));
  command.flags[0].required = true;
  command.flags[1].required = true;
  command.flags[1].may_be_empty = true;  // then the model begins by itself
  command.outputs = {"table", "json"};
  command.run = Generate;
  return command;
}

}  // namespace strata::client
