// A chat template: what turns a conversation into the text that a model reads.
//
// Templates are Jinja text that comes with a tokenizer, rendered as Hugging Face's
// apply_chat_template() does it (its environment, its variables, its tojson). They are untrusted:
// they reach nothing but the conversation, and their time and memory are bounded.
//
// It also tells which part of the text is whose, so that a loss can be taken on the assistant's
// turns alone. Where a template marks them ({% generation %}), that holds. Elsewhere the turn of
// message i is what the template wrote while its loop over the messages stood at message i, without
// the generation prompt it begins with (what add_generation_prompt appends) and without white space
// at its end. So a template that rewrites or leaves out earlier turns gives what it gives; one that
// does not go through the messages in a loop is refused.
#ifndef STRATA_DATA_RECORDS_CHAT_TEMPLATE_H_
#define STRATA_DATA_RECORDS_CHAT_TEMPLATE_H_

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/records/jinja/interpreter.h"
#include "data/records/jinja/value.h"

namespace strata::data {

struct Conversation {
  std::vector<jinja::Value> messages;  // dictionaries with at least "role", none twice
  jinja::Value tools;                  // a list, or none
  size_t bytes = 0;                    // about as large as it is; the limits grow with it
};

// Immutable; any number of threads may use it at once.
class ChatTemplate {
 public:
  // `tokens`: texts of special tokens by the names that templates use: bos_token, eos_token, ….
  // `date`: what strftime_now() says. InvalidArgument: "template line 3: …".
  static absl::StatusOr<std::unique_ptr<const ChatTemplate>> Create(
      std::string_view source, std::vector<std::pair<std::string, std::string>> tokens,
      const std::tm& date);

  // As apply_chat_template(tokenize=False). Errors: InvalidArgument (also what the template itself
  // refuses), ResourceExhausted beyond the limits.
  absl::StatusOr<std::string> Render(const Conversation& conversation,
                                     bool add_generation_prompt) const;

  struct Turns {
    std::string text;
    std::vector<jinja::Span> trained;  // what the assistant wrote, ascending and disjoint
  };
  // The whole conversation, and the turns of the assistant among messages [first, …).
  // InvalidArgument also where turns cannot be told: never wrong ones.
  absl::StatusOr<Turns> RenderTurns(const Conversation& conversation, size_t first) const;

  // Whether content may be a list of {"type": "text", "text": …}; else it has to be one text.
  bool takes_parts() const { return takes_parts_; }
  // What ends an assistant's turn ("<|im_end|>"); empty: unknown, or nothing does.
  const std::string& turn_end() const { return turn_end_; }

 private:
  ChatTemplate() = default;
  absl::StatusOr<jinja::Rendering> RenderAll(const Conversation& conversation,
                                             bool add_generation_prompt) const;
  // What add_generation_prompt writes after the messages before a turn, of which the template wrote
  // `written`.
  absl::StatusOr<std::string> GenerationPrompt(const Conversation& before,
                                               std::string_view written) const;
  // Learns the next three by rendering small conversations.
  void Probe();
  absl::Status TurnOf(const Conversation& conversation, size_t index,
                      const jinja::Rendering& rendering, std::vector<jinja::Span>* turns) const;
  // How many bytes of a turn's text are its generation prompt.
  absl::StatusOr<size_t> PromptSize(const Conversation& conversation, size_t index,
                                    std::string_view written) const;

  jinja::Block block_;
  std::vector<std::pair<std::string, std::string>> tokens_;
  std::tm date_{};
  bool marks_turns_ = false;  // has {% generation %}
  bool takes_parts_ = false;
  bool ends_turns_ = true;  // writes something after the content of a turn, within its loop
  std::string turn_end_;
  // What an assistant's turn after a user's begins with; absent: it has to be worked out for each.
  std::optional<std::string> usual_prompt_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_RECORDS_CHAT_TEMPLATE_H_
