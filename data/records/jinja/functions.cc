// Functions of the language and methods of text, lists and dictionaries.
#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/builtins.h"
#include "data/records/jinja/operators.h"
#include "data/records/jinja/text.h"
#include "data/tokenizer/utf8.h"

namespace strata::data::jinja {
namespace {

using Bound = std::vector<std::optional<Value>>;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// An argument as text; `missing` if it was not given or is none.
absl::StatusOr<std::optional<std::string_view>> TextOf(const std::optional<Value>& argument) {
  if (!argument || argument->IsNone()) return std::optional<std::string_view>();
  if (argument->IsUndefined()) return Wrong(argument->UndefinedReason());
  if (argument->AsText() == nullptr) {
    return Wrong(absl::StrCat("a text is needed, not a ", argument->TypeName()));
  }
  return std::optional<std::string_view>(*argument->AsText());
}

// Pays for looking for `part` everywhere in `text`, at the worst.
absl::Status TakeSearch(std::string_view text, std::string_view part, Budget& budget) {
  return budget.Take(static_cast<int64_t>(text.size() * (1 + part.size() / 16)));
}

absl::StatusOr<int64_t> IntegerOf(const std::optional<Value>& argument, int64_t standard) {
  int64_t value = standard;
  if (argument && !argument->AsInteger(&value)) {
    return Wrong(absl::StrCat("an integer is needed, not a ", argument->TypeName()));
  }
  return value;
}

absl::StatusOr<Value> Parts(const std::vector<std::string_view>& parts, Budget& budget) {
  std::vector<Value> items;
  RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(parts.size()) * (64 + kItemBytes)));
  for (const std::string_view part : parts) items.push_back(Value::Text(std::string(part)));
  return Value::Of(std::move(items));
}

// ---- functions

absl::StatusOr<Value> RaiseException(const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"message"}));
  ASSIGN_OR_RETURN(const std::string text, ToText(bound[0].value_or(Value()), with.budget));
  return Wrong(absl::StrCat("the template refuses this: ", text));
}

absl::StatusOr<Value> FormatDate(const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"format"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> format, TextOf(bound[0]));
  if (!format) return Wrong("strftime_now needs a format");
  if (format->size() > 256) return Wrong("strftime_now: a format of more than 256 bytes");
  char text[4096];
  const std::string pattern = absl::StrCat(std::string(*format), "|");  // never empty
  const size_t size = std::strftime(text, sizeof text, pattern.c_str(), &with.date);
  if (size == 0) return Wrong("strftime_now: a format that gives too long a text");
  return Value::Text(std::string(text, size - 1));
}

absl::StatusOr<Value> Range(const Arguments& arguments, const Surroundings& with) {
  static constexpr int64_t kMostItems = 100000;  // as the sandbox of Hugging Face's templates
  const std::vector<Value>& given = arguments.positional;
  if (!arguments.keywords.empty() || given.empty() || given.size() > 3) {
    return Wrong("range takes one to three integers");
  }
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].AsInteger(&numbers[given.size() == 1 ? 1 : i])) {
      return Wrong(absl::StrCat("range of a ", given[i].TypeName(), " instead of an integer"));
    }
  }
  if (numbers[2] == 0) return Wrong("range with step 0");
  std::vector<Value> items;
  int64_t at = numbers[0];
  while (numbers[2] > 0 ? at < numbers[1] : at > numbers[1]) {
    if (static_cast<int64_t>(items.size()) == kMostItems) return Wrong("range of more than 100000");
    items.push_back(Value::Of(at));
    if (__builtin_add_overflow(at, numbers[2], &at)) break;
  }
  RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(items.size()) * kItemBytes));
  return Value::Of(std::move(items));
}

absl::StatusOr<Dict> DictOf(const Arguments& arguments, Budget& budget) {
  Dict dict;
  if (arguments.positional.size() > 1) return Wrong("takes at most one dictionary");
  if (!arguments.positional.empty()) {
    const Dict* from = arguments.positional[0].AsDict();
    if (from == nullptr) return Wrong("only a dictionary is supported as an argument here");
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(from->entries().size()) * 4 * kItemBytes));
    dict = *from;
  }
  for (const auto& [name, value] : arguments.keywords) dict.Set(name, value);
  return dict;
}

absl::StatusOr<Value> MakeNamespace(const Arguments& arguments, const Surroundings& with) {
  auto names = std::make_shared<Namespace>();
  ASSIGN_OR_RETURN(names->variables, DictOf(arguments, with.budget));
  if (names->variables.depth() > Value::kMaxDepth) {
    return Wrong("a namespace holds plain data only");
  }
  return Value::Of(std::move(names));
}

absl::StatusOr<Value> MakeDict(const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(Dict dict, DictOf(arguments, with.budget));
  return Value::Of(std::move(dict));
}

using Function = absl::StatusOr<Value> (*)(const Arguments&, const Surroundings&);
const std::map<std::string_view, Function>& Functions() {
  static const auto* const kFunctions = new std::map<std::string_view, Function>{
      {"dict", MakeDict}, {"namespace", MakeNamespace}, {"raise_exception", RaiseException},
      {"range", Range},   {"strftime_now", FormatDate},
  };
  return *kFunctions;
}

// ---- methods

using Method = absl::StatusOr<Value> (*)(const Value&, const Arguments&, const Surroundings&);

template <bool left, bool right>
absl::StatusOr<Value> StripText(const Value& self, const Arguments& arguments,
                                const Surroundings&) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"chars"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> characters, TextOf(bound[0]));
  if (characters && characters->size() > kMostStripped)
    return Wrong("strip of too many characters");
  return Value::Text(std::string(Strip(*self.AsText(), characters, left, right)));
}

template <bool from_right>
absl::StatusOr<Value> SplitText(const Value& self, const Arguments& arguments,
                                const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> separator, TextOf(bound[0]));
  ASSIGN_OR_RETURN(const int64_t limit, IntegerOf(bound[1], -1));
  if (separator && separator->empty()) return Wrong("split with an empty separator");
  RETURN_IF_ERROR(TakeSearch(*self.AsText(), separator.value_or(""), with.budget));
  return Parts(Split(*self.AsText(), separator, limit, from_right), with.budget);
}

absl::StatusOr<Value> TextLines(const Value& self, const Arguments& arguments,
                                const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"keepends"}));
  return Parts(SplitLines(*self.AsText(), bound[0] && bound[0]->Truthy()), with.budget);
}

template <bool at_end>
absl::StatusOr<Value> TextHas(const Value& self, const Arguments& arguments,
                              const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"affix"}));
  const std::string_view text = *self.AsText();
  const auto has = [&](std::string_view affix) {
    if (affix.size() > text.size()) return false;
    return text.substr(at_end ? text.size() - affix.size() : 0, affix.size()) == affix;
  };
  if (bound[0] && bound[0]->IsTuple()) {
    const std::vector<Value>& affixes = *bound[0]->AsItems();
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(affixes.size())));
    for (const Value& affix : affixes) {
      if (affix.AsText() == nullptr) return Wrong("a tuple of texts is needed");
      if (has(*affix.AsText())) return Value::Of(true);
    }
    return Value::Of(false);
  }
  ASSIGN_OR_RETURN(const std::optional<std::string_view> affix, TextOf(bound[0]));
  if (!affix) return Wrong("a text is needed");
  return Value::Of(has(*affix));
}

absl::StatusOr<Value> ReplaceText(const Value& self, const Arguments& arguments,
                                  const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"old", "new", "count"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> from, TextOf(bound[0]));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> to, TextOf(bound[1]));
  ASSIGN_OR_RETURN(const int64_t limit, IntegerOf(bound[2], -1));
  if (!from || !to) return Wrong("replace needs two texts");
  RETURN_IF_ERROR(TakeSearch(*self.AsText(), *from, with.budget));
  // What it makes costs as much as it is long, at most all that is left.
  std::optional<std::string> replaced =
      Replace(*self.AsText(), *from, *to, limit, with.budget.left());
  RETURN_IF_ERROR(with.budget.Take(replaced ? static_cast<int64_t>(replaced->size()) : INT64_MAX));
  return Value::Text(*std::move(replaced));
}

template <Case to>
absl::StatusOr<Value> CaseText(const Value& self, const Arguments& arguments, const Surroundings&) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  ASSIGN_OR_RETURN(std::string text, ToCase(*self.AsText(), to));
  return Value::Text(std::move(text));
}

template <bool from_right>
absl::StatusOr<Value> FindText(const Value& self, const Arguments& arguments,
                               const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"sub"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> part, TextOf(bound[0]));
  if (!part) return Wrong("find needs a text");
  RETURN_IF_ERROR(TakeSearch(*self.AsText(), *part, with.budget));
  const std::string_view text = *self.AsText();
  const size_t at = from_right ? text.rfind(*part) : text.find(*part);
  if (at == std::string_view::npos) return Value::Of(int64_t{-1});
  return Value::Of(static_cast<int64_t>(CountCharacters(text.substr(0, at))));
}

absl::StatusOr<Value> CountText(const Value& self, const Arguments& arguments,
                                const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"sub"}));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> part, TextOf(bound[0]));
  if (!part) return Wrong("count needs a text");
  RETURN_IF_ERROR(TakeSearch(*self.AsText(), *part, with.budget));
  if (part->empty()) return Value::Of(static_cast<int64_t>(CountCharacters(*self.AsText())) + 1);
  return Value::Of(static_cast<int64_t>(Split(*self.AsText(), part, -1, false).size()) - 1);
}

absl::StatusOr<Value> JoinText(const Value& self, const Arguments& arguments,
                               const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"items"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items,
                   Iterate(bound[0].value_or(Value()), with.budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].AsText() == nullptr) return Wrong("join of what is not text");
    const std::string& item = *items[i].AsText();
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(item.size() + self.AsText()->size())));
    absl::StrAppend(&out, i == 0 ? "" : *self.AsText(), item);
  }
  return Value::Text(std::move(out));
}

template <bool (*is)(char32_t)>
absl::StatusOr<Value> AllCharacters(const Value& self, const Arguments& arguments,
                                    const Surroundings&) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  const std::string& text = *self.AsText();
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    if (!is(CharacterAt(text, at, &length))) return Value::Of(false);
  }
  return Value::Of(!text.empty());
}
bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

template <bool at_end>
absl::StatusOr<Value> RemoveAffix(const Value& self, const Arguments& arguments,
                                  const Surroundings& with) {
  ASSIGN_OR_RETURN(const Value has, TextHas<at_end>(self, arguments, with));
  if (!has.Truthy()) return self;
  const std::string_view text = *self.AsText();
  const std::string* affix =
      arguments.positional.empty() ? nullptr : arguments.positional[0].AsText();
  if (affix == nullptr) return Wrong("a text is needed");
  const size_t rest = text.size() - affix->size();
  return Value::Text(std::string(text.substr(at_end ? 0 : affix->size(), rest)));
}

enum class Part { kItems, kKeys, kValues };
template <Part part>
absl::StatusOr<Value> DictParts(const Value& self, const Arguments& arguments,
                                const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  std::vector<Value> parts;
  for (const auto& [key, value] : self.AsDict()->entries()) {
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(key.size()) + 5 * kItemBytes));
    if (part == Part::kValues) {
      parts.push_back(value);
      continue;
    }
    Value name = Value::Text(key);
    if (part == Part::kKeys) {
      parts.push_back(std::move(name));
      continue;
    }
    ASSIGN_OR_RETURN(Value pair, Value::Of({std::move(name), value}, /*tuple=*/true));
    parts.push_back(std::move(pair));
  }
  return Value::Of(std::move(parts));
}

absl::StatusOr<Value> GetFromDict(const Value& self, const Arguments& arguments,
                                  const Surroundings&) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"key", "default"}));
  if (!bound[0]) return Wrong("get needs a key");
  const std::string* key = bound[0]->AsText();
  const Value* found = key == nullptr ? nullptr : self.AsDict()->Find(*key);
  return found != nullptr ? *found : bound[1].value_or(Value());
}

absl::StatusOr<int64_t> Occurrences(const Value& self, const Value& item, Budget& budget,
                                    int64_t* first) {
  int64_t count = 0;
  for (size_t i = 0; i < self.AsItems()->size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal((*self.AsItems())[i], item, budget));
    if (equal && count == 0) *first = static_cast<int64_t>(i);
    count += equal ? 1 : 0;
  }
  return count;
}

template <bool index>
absl::StatusOr<Value> FindInList(const Value& self, const Arguments& arguments,
                                 const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"item"}));
  int64_t first = 0;
  ASSIGN_OR_RETURN(const int64_t count,
                   Occurrences(self, bound[0].value_or(Value()), with.budget, &first));
  if (!index) return Value::Of(count);
  if (count == 0) return Wrong("index of an item that the list does not have");
  return Value::Of(first);
}

absl::StatusOr<Value> RefuseChange(const Value& self, const Arguments&, const Surroundings&) {
  return Wrong(absl::StrCat("templates may not change a ", self.TypeName()));
}

const std::map<std::string_view, Method>& TextMethods() {
  static const auto* const kMethods = new std::map<std::string_view, Method>{
      {"capitalize", CaseText<Case::kCapitalized>},
      {"count", CountText},
      {"endswith", TextHas<true>},
      {"find", FindText<false>},
      {"isdigit", AllCharacters<IsAsciiDigit>},
      {"isspace", AllCharacters<IsSpace>},
      {"join", JoinText},
      {"lower", CaseText<Case::kLower>},
      {"lstrip", StripText<true, false>},
      {"removeprefix", RemoveAffix<false>},
      {"removesuffix", RemoveAffix<true>},
      {"replace", ReplaceText},
      {"rfind", FindText<true>},
      {"rsplit", SplitText<true>},
      {"rstrip", StripText<false, true>},
      {"split", SplitText<false>},
      {"splitlines", TextLines},
      {"startswith", TextHas<false>},
      {"strip", StripText<true, true>},
      {"title", CaseText<Case::kTitle>},
      {"upper", CaseText<Case::kUpper>},
  };
  return *kMethods;
}

const std::map<std::string_view, Method>& DictMethods() {
  static const auto* const kMethods = new std::map<std::string_view, Method>{
      {"clear", RefuseChange},
      {"get", GetFromDict},
      {"items", DictParts<Part::kItems>},
      {"keys", DictParts<Part::kKeys>},
      {"pop", RefuseChange},
      {"popitem", RefuseChange},
      {"setdefault", RefuseChange},
      {"update", RefuseChange},
      {"values", DictParts<Part::kValues>},
  };
  return *kMethods;
}

const std::map<std::string_view, Method>& ListMethods() {
  static const auto* const kMethods = new std::map<std::string_view, Method>{
      {"append", RefuseChange}, {"clear", RefuseChange},     {"count", FindInList<false>},
      {"extend", RefuseChange}, {"index", FindInList<true>}, {"insert", RefuseChange},
      {"pop", RefuseChange},    {"remove", RefuseChange},    {"reverse", RefuseChange},
      {"sort", RefuseChange},
  };
  return *kMethods;
}

Method FindMethod(const Value& self, std::string_view name) {
  const auto find = [&](const std::map<std::string_view, Method>& methods) -> Method {
    const auto found = methods.find(name);
    return found == methods.end() ? nullptr : found->second;
  };
  if (self.AsText() != nullptr) return find(TextMethods());
  if (self.AsDict() != nullptr) return find(DictMethods());
  if (self.AsItems() != nullptr) return find(ListMethods());
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<std::optional<Value>>> Arguments::Bind(
    std::initializer_list<std::string_view> names) const {
  std::vector<std::optional<Value>> bound(names.size());
  if (positional.size() > names.size()) {
    return Wrong(
        absl::StrCat("takes at most ", names.size(), " arguments, not ", positional.size()));
  }
  std::copy(positional.begin(), positional.end(), bound.begin());
  for (const auto& [name, value] : keywords) {
    const auto* const found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return Wrong(absl::StrCat("has no argument '", name, "'"));
    bound[static_cast<size_t>(found - names.begin())] = value;
  }
  return bound;
}

bool IsFunction(std::string_view name) { return Functions().count(name) > 0; }

absl::StatusOr<Value> CallFunction(std::string_view name, const Arguments& arguments,
                                   const Surroundings& with) {
  return Functions().at(name)(arguments, with);
}

bool HasMethod(const Value& self, std::string_view name) {
  return FindMethod(self, name) != nullptr;
}

absl::StatusOr<Value> CallMethod(const Value& self, std::string_view name,
                                 const Arguments& arguments, const Surroundings& with) {
  if (self.AsText() != nullptr) {
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(self.AsText()->size())));
  }
  return FindMethod(self, name)(self, arguments, with);
}

}  // namespace strata::data::jinja
