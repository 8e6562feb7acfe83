#include "worker/trainer/generate_task.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/inference_session.h"
#include "worker/trainer/sampling.h"

namespace strata::worker {
namespace {

constexpr int64_t kPrefillChunk = 64;
constexpr int64_t kByteTokens = 256;

// A prompt comes as tokens from a client that has the model's tokenizer, else as bytes.
bool ByTokens(const v1::StandaloneRequest& request) { return request.prompt_tokens_size() > 0; }

std::vector<int32_t> PromptOf(const v1::StandaloneRequest& request) {
  std::vector<int32_t> tokens(request.prompt_tokens().begin(), request.prompt_tokens().end());
  if (ByTokens(request)) return tokens;
  const std::string text = request.prompt().empty() ? "\n" : request.prompt();
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

v1::TrainerEvent TextOf(int32_t token, bool as_token) {
  v1::TrainerEvent event;
  if (as_token) {
    event.mutable_text()->add_tokens(token);
  } else {
    event.mutable_text()->set_text(std::string(1, static_cast<char>(token)));
  }
  return event;
}

bool Stops(const v1::StandaloneRequest& request, int32_t token) {
  return std::find(request.stop_tokens().begin(), request.stop_tokens().end(), token) !=
         request.stop_tokens().end();
}

// Logits of the token after the text.
absl::StatusOr<absl::Span<const float>> ReadText(InferenceSession& session,
                                                 const std::vector<int32_t>& text) {
  absl::Span<const float> logits;
  int64_t rows = 0;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(rows)) {
    const auto chunk = absl::MakeConstSpan(text).subspan(at, session.chunk());
    rows = static_cast<int64_t>(chunk.size());
    ASSIGN_OR_RETURN(logits, session.Read(chunk, static_cast<int64_t>(at)));
  }
  return logits.subspan((rows - 1) * session.program().model.vocab);
}

}  // namespace

absl::StatusOr<v1::JobPlan> PlanGeneration(const TaskContext& context) {
  const v1::StandaloneRequest& request = context.task.request();
  v1::JobSpec job;
  ASSIGN_OR_RETURN(const v1::JobPlan plan,
                   PlanInference(context, request.checkpoint_path(), kPrefillChunk, &job));
  for (const int32_t token : request.prompt_tokens()) {
    if (token >= 0 && token < job.model().vocab()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--tokenizer: its token ", token, " is beyond the model's vocabulary of ",
                     job.model().vocab(), " — name the tokenizer that the model was trained with"));
  }
  const int64_t prompt = static_cast<int64_t>(PromptOf(request).size());
  if (prompt > job.model().context()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--prompt: ", prompt, " tokens, the model's context holds ", job.model().context()));
  }
  return plan;
}

absl::Status RunGeneration(const TaskContext& context) {
  const v1::StandaloneRequest& request = context.task.request();
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceSession> session,
                   InferenceSession::Open(context, kPrefillChunk));
  const bool tells = context.task.rank() == 0;
  const int64_t context_tokens = session->program().model.context;
  const int64_t vocab = session->program().model.vocab;
  const size_t choices =
      static_cast<size_t>(ByTokens(request) ? vocab : std::min<int64_t>(kByteTokens, vocab));
  const SamplingRule rule{.temperature = request.temperature(),
                          .top_k = request.top_k(),
                          .top_p = request.top_p(),
                          .seed = static_cast<uint64_t>(request.seed())};
  std::vector<int32_t> text = PromptOf(request);
  ASSIGN_OR_RETURN(absl::Span<const float> logits, ReadText(*session, text));
  int64_t position = static_cast<int64_t>(text.size());  // of the token to choose
  for (int64_t made = 0; made < request.tokens(); ++made, ++position) {
    const int32_t token = SampleToken(logits.subspan(0, choices), rule, position);
    // All ranks choose the same; one tells.
    if (tells) context.control->Send(TextOf(token, ByTokens(request)));
    if (made + 1 == request.tokens() || Stops(request, token)) break;
    if (position >= context_tokens) {
      if (!tells) break;
      context.control->Notice(
          v1::Notice::SEVERITY_WARNING,
          absl::StrCat("stopped after ", made + 1, " of ", request.tokens(),
                       " tokens: the model's context of ", context_tokens, " is full"));
      break;
    }
    text.push_back(token);
    ASSIGN_OR_RETURN(const bool read_again, session->GrowTo(position + 1));
    if (read_again) {
      ASSIGN_OR_RETURN(logits, ReadText(*session, text));
    } else {
      ASSIGN_OR_RETURN(logits, session->Read(absl::MakeConstSpan(&text.back(), 1), position));
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
