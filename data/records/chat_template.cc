#include "data/records/chat_template.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/parser.h"
#include "data/records/jinja/text.h"

namespace strata::data {
namespace {

using jinja::Rendering;
using jinja::Span;
using jinja::Statement;
using jinja::Value;

// Of one rendering (jinja::Budget): a second or two at the worst, more for large conversations.
constexpr int64_t kBudget = int64_t{1} << 28;
constexpr int64_t kBudgetPerByte = 256;

// A text that no template writes or rewrites: private-use characters around letters.
constexpr std::string_view kProbe = "\xEE\x80\x80probe\xEE\x80\x80";

bool MarksTurns(const jinja::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const std::unique_ptr<Statement>& statement) {
    const auto in_branch = [](const Statement::Branch& branch) { return MarksTurns(branch.body); };
    return statement->kind == Statement::Kind::kGeneration || MarksTurns(statement->body) ||
           MarksTurns(statement->otherwise) ||
           std::any_of(statement->branches.begin(), statement->branches.end(), in_branch);
  });
}

absl::StatusOr<Value> Message(std::string_view role, Value content) {
  jinja::Dict message;
  message.Set("role", Value::Text(std::string(role)));
  message.Set("content", std::move(content));
  return Value::Of(std::move(message));
}

absl::StatusOr<Value> TextParts(std::string_view text) {
  jinja::Dict part;
  part.Set("type", Value::Text("text"));
  part.Set("text", Value::Text(std::string(text)));
  ASSIGN_OR_RETURN(Value value, Value::Of(std::move(part)));
  return Value::Of({std::move(value)});
}

absl::StatusOr<Conversation> UserSays(Value content) {
  Conversation conversation;
  ASSIGN_OR_RETURN(Value user, Message("user", std::move(content)));
  conversation.messages.push_back(std::move(user));
  return conversation;
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(in_a - a.begin());
}

std::string_view TextOf(const Rendering& rendering, Span span) {
  return std::string_view(rendering.text).substr(span.begin, span.end - span.begin);
}

bool IsAssistant(const Value& message) {
  const Value* role = message.AsDict() == nullptr ? nullptr : message.AsDict()->Find("role");
  return role != nullptr && role->AsText() != nullptr && *role->AsText() == "assistant";
}

absl::Status Unknown(size_t index, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("messages[", index, "]: which tokens are the assistant's cannot be told: the ",
                   "chat template ", std::string(why)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ChatTemplate>> ChatTemplate::Create(
    std::string_view source, std::vector<std::pair<std::string, std::string>> tokens,
    const std::tm& date) {
  auto chat = std::unique_ptr<ChatTemplate>(new ChatTemplate());
  ASSIGN_OR_RETURN(chat->block_, jinja::ParseTemplate(source));
  chat->tokens_ = std::move(tokens);
  chat->date_ = date;
  chat->marks_turns_ = MarksTurns(chat->block_);
  chat->Probe();
  return chat;
}

absl::StatusOr<Rendering> ChatTemplate::RenderAll(const Conversation& conversation,
                                                  bool add_generation_prompt) const {
  jinja::RenderInput input;
  for (const auto& [name, text] : tokens_) input.variables.emplace_back(name, Value::Text(text));
  ASSIGN_OR_RETURN(input.followed, Value::Of(conversation.messages));
  input.variables.emplace_back("messages", input.followed);
  input.variables.emplace_back("tools", conversation.tools);
  input.variables.emplace_back("documents", Value());
  input.variables.emplace_back("add_generation_prompt", Value::Of(add_generation_prompt));
  input.date = date_;
  input.budget = kBudget + kBudgetPerByte * static_cast<int64_t>(conversation.bytes);
  return jinja::Render(block_, input);
}

absl::StatusOr<std::string> ChatTemplate::Render(const Conversation& conversation,
                                                 bool add_generation_prompt) const {
  ASSIGN_OR_RETURN(Rendering rendering, RenderAll(conversation, add_generation_prompt));
  return std::move(rendering.text);
}

absl::StatusOr<std::string> ChatTemplate::GenerationPrompt(const Conversation& before,
                                                           std::string_view written) const {
  ASSIGN_OR_RETURN(const Rendering without, RenderAll(before, false));
  ASSIGN_OR_RETURN(const Rendering with, RenderAll(before, true));
  const std::string_view text = with.text;
  const bool appended = text.substr(0, without.text.size()) == without.text;
  if (appended && text.size() > without.text.size()) {
    return std::string(text.substr(without.text.size()));
  }
  // Some write an end of text where they do not write a prompt; some always write a prompt.
  std::string after_loop;
  if (!with.items.empty()) after_loop = text.substr(with.items.back().second.end);
  if (!appended || written.substr(0, after_loop.size()) == after_loop) return after_loop;
  return std::string();
}

void ChatTemplate::Probe() {
  const auto render_parts = [&]() -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(Value parts, TextParts(kProbe));
    ASSIGN_OR_RETURN(const Conversation as_parts, UserSays(std::move(parts)));
    ASSIGN_OR_RETURN(const Conversation as_text, UserSays(Value::Text(std::string(kProbe))));
    ASSIGN_OR_RETURN(const std::string from_parts, Render(as_parts, false));
    ASSIGN_OR_RETURN(const std::string from_text, Render(as_text, false));
    return from_parts == from_text && from_text.find(kProbe) != std::string::npos;
  };
  takes_parts_ = render_parts().value_or(false);

  const auto learn_turn = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Conversation conversation, UserSays(Value::Text("?")));
    const Conversation before = conversation;
    ASSIGN_OR_RETURN(Value answer, Message("assistant", Value::Text(std::string(kProbe))));
    conversation.messages.push_back(std::move(answer));
    ASSIGN_OR_RETURN(const Rendering rendering, RenderAll(conversation, false));
    if (rendering.items.empty() || rendering.items.back().first != 1) return absl::OkStatus();
    const std::string_view written = TextOf(rendering, rendering.items.back().second);
    const size_t content = written.find(kProbe);
    if (content == std::string_view::npos) return absl::OkStatus();
    const std::string_view after = written.substr(content + kProbe.size());
    turn_end_ = std::string(jinja::Strip(after, std::nullopt, true, true));
    ends_turns_ = !turn_end_.empty();
    ASSIGN_OR_RETURN(const std::string prompt, GenerationPrompt(before, written));
    // A prompt may go further than the turn repeats it, up to the content: `<think>`, for one.
    const size_t common = CommonPrefix(prompt, written);
    if (common == prompt.size() || common == content) usual_prompt_ = prompt.substr(0, common);
    return absl::OkStatus();
  };
  // A template may refuse such a conversation: then nothing is usual.
  if (!learn_turn().ok()) usual_prompt_.reset();
}

absl::StatusOr<size_t> ChatTemplate::PromptSize(const Conversation& conversation, size_t index,
                                                std::string_view written) const {
  const auto begins_with = [&](std::string_view prompt) {
    return written.substr(0, prompt.size()) == prompt;
  };
  if (usual_prompt_ && begins_with(*usual_prompt_)) return usual_prompt_->size();
  Conversation before;
  before.messages.assign(conversation.messages.begin(),
                         conversation.messages.begin() + static_cast<ptrdiff_t>(index));
  before.tools = conversation.tools;
  before.bytes = conversation.bytes;
  const absl::StatusOr<std::string> prompt = GenerationPrompt(before, written);
  if (!prompt.ok()) {
    return Unknown(index, absl::StrCat("does not render what stands before: ",
                                       std::string(prompt.status().message())));
  }
  if (!begins_with(*prompt))
    return Unknown(index, "begins its turn in another way than it prompts");
  return prompt->size();
}

absl::Status ChatTemplate::TurnOf(const Conversation& conversation, size_t index,
                                  const Rendering& rendering, std::vector<Span>* turns) const {
  std::vector<Span> spans;
  for (const auto& [item, span] : rendering.items) {
    if (item == index) spans.push_back(span);
  }
  if (spans.empty()) return absl::OkStatus();  // the template leaves this turn out
  if (spans.size() > 1) return Unknown(index, "writes it at several places");
  ASSIGN_OR_RETURN(const size_t prompt,
                   PromptSize(conversation, index, TextOf(rendering, spans[0])));
  Span turn{spans[0].begin + prompt, spans[0].end};
  // What follows the loop ends the last turn of a template that does not end turns itself.
  if (!ends_turns_ && index + 1 == conversation.messages.size()) turn.end = rendering.text.size();
  turn.end = turn.begin + jinja::Strip(TextOf(rendering, turn), std::nullopt, false, true).size();
  if (turn.end > turn.begin) turns->push_back(turn);
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate::Turns> ChatTemplate::RenderTurns(const Conversation& conversation,
                                                              size_t first) const {
  ASSIGN_OR_RETURN(Rendering rendering, RenderAll(conversation, false));
  Turns turns;
  if (marks_turns_) {
    for (const Span& marked : rendering.generations) {
      size_t index = first;
      for (const auto& [item, span] : rendering.items) {
        if (span.begin <= marked.begin && marked.end <= span.end) index = item;
      }
      if (index >= first) turns.trained.push_back(marked);
    }
  } else {
    if (rendering.items.empty() && !conversation.messages.empty()) {
      return Unknown(0, "does not go through the messages in a loop");
    }
    for (size_t i = first; i < conversation.messages.size(); ++i) {
      if (!IsAssistant(conversation.messages[i])) continue;
      RETURN_IF_ERROR(TurnOf(conversation, i, rendering, &turns.trained));
    }
    const auto earlier = [](const Span& a, const Span& b) { return a.begin < b.begin; };
    std::sort(turns.trained.begin(), turns.trained.end(), earlier);
  }
  turns.text = std::move(rendering.text);
  return turns;
}

}  // namespace strata::data
