#include "data/records/record.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "data/records/jinja/text.h"
#include "data/records/json_value.h"

namespace strata::data {
namespace {

using jinja::Dict;
using jinja::Value;

absl::Status Wrong(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

std::string Short(std::string_view text) { return std::string(jinja::Excerpt(text, 40)); }

absl::Status WrongType(const std::string& where, const std::string& wanted, const Value& found) {
  return Wrong(where, absl::StrCat("must be ", wanted, ", not ",
                                   found.IsNone() ? "null" : found.TypeName()));
}

// A key that may be missing or null; null then.
const Value* Given(const Dict& dict, std::string_view key) {
  const Value* value = dict.Find(key);
  return value == nullptr || value->IsNone() ? nullptr : value;
}

absl::StatusOr<std::string> TextAt(const Dict& dict, std::string_view key,
                                   const std::string& where) {
  const Value* value = dict.Find(key);
  if (value == nullptr) return Wrong(where, "is missing");
  if (value->AsText() == nullptr) return WrongType(where, "a text", *value);
  return *value->AsText();
}

// Empty if it is missing or null.
absl::StatusOr<std::string> OptionalTextAt(const Dict& dict, std::string_view key) {
  const std::string where(key);
  return Given(dict, key) == nullptr ? std::string() : TextAt(dict, key, where);
}

absl::StatusOr<Value> MakeMessage(std::string_view role, std::string content) {
  Dict message;
  message.Set("role", Value::Text(std::string(role)));
  message.Set("content", Value::Text(std::move(content)));
  return Value::Of(std::move(message));
}

absl::Status AddMessage(std::string_view role, std::string content, Conversation& conversation) {
  ASSIGN_OR_RETURN(Value message, MakeMessage(role, std::move(content)));
  conversation.messages.push_back(std::move(message));
  return absl::OkStatus();
}

// ---- messages

constexpr std::array<std::string_view, 7> kRoles = {"system", "developer", "user",   "assistant",
                                                    "tool",   "function",  "ipython"};

absl::Status CheckRole(const Dict& message, const std::string& where, bool* assistant) {
  ASSIGN_OR_RETURN(const std::string role, TextAt(message, "role", absl::StrCat(where, ".role")));
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    std::vector<std::string> known(kRoles.begin(), kRoles.end());
    return Wrong(absl::StrCat(where, ".role"),
                 absl::StrCat("unknown role \"", Short(role),
                              "\" (known: ", absl::StrJoin(known, ", "), ")"));
  }
  *assistant = role == "assistant";
  return absl::OkStatus();
}

// The texts of a list of parts, one after the other.
absl::StatusOr<std::string> JoinParts(const std::vector<Value>& parts, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string here = absl::StrCat(where, "[", i, "]");
    const Dict* part = parts[i].AsDict();
    if (part == nullptr) return WrongType(here, "an object", parts[i]);
    const Value* type = part->Find("type");
    if (type == nullptr || type->AsText() == nullptr || *type->AsText() != "text") {
      return Wrong(absl::StrCat(here, ".type"), "only parts of type \"text\" can be trained on");
    }
    ASSIGN_OR_RETURN(const std::string more, TextAt(*part, "text", absl::StrCat(here, ".text")));
    text += more;
  }
  return text;
}

absl::Status CheckToolCalls(const Value& calls, const std::string& where) {
  if (calls.AsItems() == nullptr) return WrongType(where, "a list", calls);
  for (size_t i = 0; i < calls.AsItems()->size(); ++i) {
    const Value& call = (*calls.AsItems())[i];
    if (call.AsDict() == nullptr)
      return WrongType(absl::StrCat(where, "[", i, "]"), "an object", call);
  }
  return absl::OkStatus();
}

// A message as transformers hands it to templates: keys that are null left out, and reasoning under
// all the names that templates read it by.
Dict Normalize(const Dict& message) {
  const Value* reasoning = nullptr;
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr) reasoning = Given(message, name);
  }
  Dict normal;
  if (reasoning != nullptr) normal.Set("thinking", *reasoning);
  for (const auto& [key, value] : message.entries()) {
    if (!value.IsNone()) normal.Set(key, value);
  }
  if (reasoning != nullptr) normal.Set("reasoning_content", *reasoning);
  return normal;
}

// As templates take it: checked, and content made one text unless parts stay.
absl::StatusOr<Value> ReadMessage(const Value& value, const std::string& where, bool keep_parts,
                                  bool* assistant) {
  if (value.AsDict() == nullptr) return WrongType(where, "an object", value);
  Dict message = Normalize(*value.AsDict());
  RETURN_IF_ERROR(CheckRole(message, where, assistant));
  const Value* calls = message.Find("tool_calls");
  if (calls != nullptr) RETURN_IF_ERROR(CheckToolCalls(*calls, absl::StrCat(where, ".tool_calls")));
  const Value* content = message.Find("content");
  const std::string here = absl::StrCat(where, ".content");
  if (content == nullptr && !(*assistant && calls != nullptr)) return Wrong(here, "is missing");
  if (content != nullptr && content->AsText() == nullptr) {
    if (content->AsItems() == nullptr) {
      return WrongType(here, "a text or a list of text parts", *content);
    }
    ASSIGN_OR_RETURN(std::string text, JoinParts(*content->AsItems(), here));
    if (!keep_parts) message.Set("content", Value::Text(std::move(text)));
  }
  return Value::Of(std::move(message));
}

// Adds the messages of a list; counts the assistant's.
absl::Status ReadMessages(const Value& list, const std::string& where, bool keep_parts,
                          Conversation& conversation, size_t* assistants) {
  if (list.AsItems() == nullptr) return WrongType(where, "a list", list);
  if (list.AsItems()->empty()) return Wrong(where, "has no messages");
  for (size_t i = 0; i < list.AsItems()->size(); ++i) {
    bool assistant = false;
    ASSIGN_OR_RETURN(Value message,
                     ReadMessage((*list.AsItems())[i], absl::StrCat(where, "[", i, "]"), keep_parts,
                                 &assistant));
    conversation.messages.push_back(std::move(message));
    *assistants += assistant ? 1 : 0;
  }
  return absl::OkStatus();
}

absl::Status NothingToTrain(const std::string& where) {
  return Wrong(where, "no turn of the assistant: nothing to train on");
}

// A list, or a text that is one in JSON; missing: none.
absl::StatusOr<Value> ReadTools(const Dict& record) {
  const Value* tools = Given(record, "tools");
  if (tools == nullptr) return Value();
  Value list = *tools;
  if (const std::string* text = tools->AsText()) {
    if (text->empty()) return Value();
    absl::StatusOr<Value> read = ParseJsonValue(*text);
    if (!read.ok()) return Wrong("tools", std::string(read.status().message()));
    list = *std::move(read);
  }
  if (list.AsItems() == nullptr) return WrongType("tools", "a list", list);
  for (size_t i = 0; i < list.AsItems()->size(); ++i) {
    const Value& tool = (*list.AsItems())[i];
    if (tool.AsDict() == nullptr)
      return WrongType(absl::StrCat("tools[", i, "]"), "an object", tool);
  }
  return list;  // an empty one as well: templates may tell it from none
}

// ---- the kinds of records

absl::StatusOr<Record> ReadText(const Dict& record, bool) {
  PlainRecord plain;
  ASSIGN_OR_RETURN(plain.text, TextAt(record, "text", "text"));
  if (plain.text.empty()) return Wrong("text", "is empty: nothing to train on");
  return plain;
}

absl::StatusOr<Record> ReadMessagesRecord(const Dict& record, bool keep_parts) {
  ChatRecord chat;
  size_t assistants = 0;
  RETURN_IF_ERROR(ReadMessages(*record.Find("messages"), "messages", keep_parts, chat.conversation,
                               &assistants));
  if (assistants == 0) return NothingToTrain("messages");
  ASSIGN_OR_RETURN(chat.conversation.tools, ReadTools(record));
  return chat;
}

absl::StatusOr<Record> ReadCompletion(const Dict& record, bool keep_parts) {
  const Value &prompt = *record.Find("prompt"), &completion = *record.Find("completion");
  if (prompt.AsText() != nullptr && completion.AsText() != nullptr) {
    if (completion.AsText()->empty()) return Wrong("completion", "is empty: nothing to train on");
    return PlainRecord{absl::StrCat(*prompt.AsText(), *completion.AsText()),
                       prompt.AsText()->size()};
  }
  if (prompt.AsItems() == nullptr || completion.AsItems() == nullptr) {
    return Wrong("prompt, completion", "must be two texts or two lists of messages");
  }
  ChatRecord chat;
  size_t assistants = 0;
  RETURN_IF_ERROR(ReadMessages(prompt, "prompt", keep_parts, chat.conversation, &assistants));
  chat.first_trained = chat.conversation.messages.size();
  assistants = 0;
  RETURN_IF_ERROR(
      ReadMessages(completion, "completion", keep_parts, chat.conversation, &assistants));
  if (assistants == 0) return NothingToTrain("completion");
  ASSIGN_OR_RETURN(chat.conversation.tools, ReadTools(record));
  return chat;
}

std::optional<std::string_view> RoleOfSpeaker(std::string_view from) {
  static constexpr std::pair<std::string_view, std::string_view> kSpeakers[] = {
      {"human", "user"},    {"user", "user"}, {"gpt", "assistant"},    {"assistant", "assistant"},
      {"system", "system"}, {"tool", "tool"}, {"observation", "tool"},
  };
  for (const auto& [speaker, role] : kSpeakers) {
    if (speaker == from) return role;
  }
  return std::nullopt;
}

absl::StatusOr<Record> ReadShareGpt(const Dict& record, bool) {
  ChatRecord chat;
  const Value& turns = *record.Find("conversations");
  if (turns.AsItems() == nullptr) return WrongType("conversations", "a list", turns);
  if (turns.AsItems()->empty()) return Wrong("conversations", "has no turns");
  ASSIGN_OR_RETURN(std::string system, OptionalTextAt(record, "system"));
  if (!system.empty()) RETURN_IF_ERROR(AddMessage("system", std::move(system), chat.conversation));
  bool trains = false;
  for (size_t i = 0; i < turns.AsItems()->size(); ++i) {
    const std::string where = absl::StrCat("conversations[", i, "]");
    const Dict* turn = (*turns.AsItems())[i].AsDict();
    if (turn == nullptr) return WrongType(where, "an object", (*turns.AsItems())[i]);
    ASSIGN_OR_RETURN(const std::string from, TextAt(*turn, "from", absl::StrCat(where, ".from")));
    ASSIGN_OR_RETURN(std::string value, TextAt(*turn, "value", absl::StrCat(where, ".value")));
    const std::optional<std::string_view> role = RoleOfSpeaker(from);
    if (!role) {
      return Wrong(
          absl::StrCat(where, ".from"),
          absl::StrCat("unknown speaker \"", Short(from),
                       "\" (known: human, user, gpt, assistant, system, tool, observation)"));
    }
    trains = trains || *role == "assistant";
    RETURN_IF_ERROR(AddMessage(*role, std::move(value), chat.conversation));
  }
  if (!trains) return NothingToTrain("conversations");
  ASSIGN_OR_RETURN(chat.conversation.tools, ReadTools(record));
  return chat;
}

absl::Status AddHistory(const Value& history, Conversation& conversation) {
  if (history.AsItems() == nullptr) return WrongType("history", "a list", history);
  for (size_t i = 0; i < history.AsItems()->size(); ++i) {
    const Value& pair = (*history.AsItems())[i];
    const std::vector<Value>* texts = pair.AsItems();
    if (texts == nullptr || texts->size() != 2 || (*texts)[0].AsText() == nullptr ||
        (*texts)[1].AsText() == nullptr) {
      return Wrong(absl::StrCat("history[", i, "]"),
                   "must be a list of two texts: user, assistant");
    }
    RETURN_IF_ERROR(AddMessage("user", *(*texts)[0].AsText(), conversation));
    RETURN_IF_ERROR(AddMessage("assistant", *(*texts)[1].AsText(), conversation));
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> ReadAlpaca(const Dict& record, bool) {
  ChatRecord chat;
  ASSIGN_OR_RETURN(std::string system, OptionalTextAt(record, "system"));
  if (!system.empty()) RETURN_IF_ERROR(AddMessage("system", std::move(system), chat.conversation));
  if (const Value* history = Given(record, "history")) {
    RETURN_IF_ERROR(AddHistory(*history, chat.conversation));
  }
  ASSIGN_OR_RETURN(std::string user, TextAt(record, "instruction", "instruction"));
  ASSIGN_OR_RETURN(const std::string input, OptionalTextAt(record, "input"));
  if (!input.empty()) absl::StrAppend(&user, "\n", input);
  ASSIGN_OR_RETURN(std::string output, TextAt(record, "output", "output"));
  RETURN_IF_ERROR(AddMessage("user", std::move(user), chat.conversation));
  RETURN_IF_ERROR(AddMessage("assistant", std::move(output), chat.conversation));
  return chat;
}

struct Shape {
  std::vector<std::string> keys;  // all of which it has
  absl::StatusOr<Record> (*read)(const Dict&, bool keep_parts);
  // Beside these keys a "text" is the same once more, as one text: rows of tatsu-lab/alpaca have
  // it.
  bool repeats_as_text = false;
};

const std::vector<Shape>& Shapes() {
  static const auto* const kShapes = new std::vector<Shape>{
      {{"text"}, ReadText},
      {{"messages"}, ReadMessagesRecord},
      {{"prompt", "completion"}, ReadCompletion},
      {{"conversations"}, ReadShareGpt},
      {{"instruction", "output"}, ReadAlpaca, /*repeats_as_text=*/true},
  };
  return *kShapes;
}

std::string Name(const Shape& shape) {
  return absl::StrCat("{\"", absl::StrJoin(shape.keys, "\", \""), "\"}");
}

absl::Status UnknownShape(const Dict& record) {
  std::vector<std::string> names, keys;
  for (const Shape& shape : Shapes()) names.push_back(Name(shape));
  for (const Dict::Entry& entry : record.entries()) {
    if (keys.size() == 10) break;
    keys.push_back(Short(entry.first));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is none of the known kinds of records: ", absl::StrJoin(names, ", "),
                   " (its keys: ", keys.empty() ? "none" : absl::StrJoin(keys, ", "), ")"));
}

}  // namespace

absl::StatusOr<Record> ReadRecord(std::string_view json, bool keep_parts) {
  ASSIGN_OR_RETURN(const Value value, ParseJsonValue(json));
  const Dict* record = value.AsDict();
  if (record == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a record must be an object, not a ",
                                                   value.IsNone() ? "null" : value.TypeName()));
  }
  const Shape* found = nullptr;
  for (const Shape& shape : Shapes()) {
    const auto has = [&](const std::string& key) { return record->Find(key) != nullptr; };
    if (!std::all_of(shape.keys.begin(), shape.keys.end(), has)) continue;
    if (found != nullptr && !(shape.repeats_as_text && found->read == ReadText)) {
      return absl::InvalidArgumentError(absl::StrCat("is two kinds of records at once, ",
                                                     Name(*found), " and ", Name(shape),
                                                     ": remove the keys of one"));
    }
    found = &shape;
  }
  if (found == nullptr) return UnknownShape(*record);
  ASSIGN_OR_RETURN(Record read, found->read(*record, keep_parts));
  if (ChatRecord* chat = std::get_if<ChatRecord>(&read)) chat->conversation.bytes = json.size();
  return read;
}

}  // namespace strata::data
