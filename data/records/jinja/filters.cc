// Filters: value | name(arguments).
#include <algorithm>
#include <charconv>
#include <cmath>
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
using Result = absl::StatusOr<Value>;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<std::string> TextOr(const std::optional<Value>& argument, std::string standard,
                                   Budget& budget) {
  if (!argument) return standard;
  return ToText(*argument, budget);
}

bool Truthy(const std::optional<Value>& argument, bool standard) {
  return argument ? argument->Truthy() : standard;
}

// The arguments after the first `count`.
Arguments Without(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  const auto begin = rest.positional.begin();
  rest.positional.erase(begin, begin + static_cast<ptrdiff_t>(count));
  return rest;
}

// ---- text

Result Trim(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"chars"}));
  ASSIGN_OR_RETURN(const std::string text, ToText(value, with.budget));
  std::optional<std::string_view> characters;
  if (bound[0] && bound[0]->AsText() != nullptr) characters = *bound[0]->AsText();
  if (characters && characters->size() > kMostStripped) return Wrong("trim of too many characters");
  return Value::Text(std::string(Strip(text, characters, true, true)));
}

template <Case to>
Result ChangeCase(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  ASSIGN_OR_RETURN(const std::string text, ToText(value, with.budget));
  ASSIGN_OR_RETURN(std::string changed, ToCase(text, to));
  return Value::Text(std::move(changed));
}

Result String(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  if (value.AsText() != nullptr) return value;
  ASSIGN_OR_RETURN(std::string text, ToText(value, with.budget));
  return Value::Text(std::move(text));
}

Result Same(const Value& value, const Arguments& arguments, const Surroundings& with) {
  return String(value, arguments, with);  // nothing is escaped, so all text is safe
}

Result ReplaceIn(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(Value text, String(value, {}, with));
  Arguments texts = arguments;
  for (size_t i = 0; i < texts.positional.size() && i < 2; ++i) {
    ASSIGN_OR_RETURN(texts.positional[i], String(texts.positional[i], {}, with));
  }
  return CallMethod(text, "replace", texts, with);
}

Result Indent(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"width", "first", "blank"}));
  ASSIGN_OR_RETURN(const std::string text, ToText(value, with.budget));
  std::string indent(4, ' ');
  int64_t width = 0;
  if (bound[0] && bound[0]->AsText() != nullptr) {
    indent = *bound[0]->AsText();
  } else if (bound[0] && bound[0]->AsInteger(&width)) {
    if (width > 1000) return Wrong("indent of more than 1000");
    indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const std::string ended = text + "\n";
  const std::vector<std::string_view> lines = SplitLines(ended, false);
  RETURN_IF_ERROR(
      with.budget.Take(static_cast<int64_t>(lines.size() * (indent.size() + 1) + text.size())));
  std::string out = Truthy(bound[1], false) ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (Truthy(bound[2], false) || !lines[i].empty())) out += indent;
    out += lines[i];
  }
  return Value::Text(std::move(out));
}

Result ToJsonText(const Value& value, const Arguments& arguments, const Surroundings& with) {
  // As transformers defines it for chat templates.
  ASSIGN_OR_RETURN(const Bound bound,
                   arguments.Bind({"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii = Truthy(bound[0], false);
  style.sort_keys = Truthy(bound[3], false);
  int64_t width = 0;
  if (bound[1] && !bound[1]->IsNone()) {
    style.indented = true;
    style.item_separator = std::string(1, ',');
    if (bound[1]->AsText() != nullptr) {
      style.indent = *bound[1]->AsText();
    } else if (bound[1]->AsInteger(&width) && width <= 64) {
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    } else {
      return Wrong("tojson: indent must be a text or an integer of at most 64");
    }
  }
  if (bound[2] && !bound[2]->IsNone()) {
    const std::vector<Value>* pair = bound[2]->AsItems();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].AsText() == nullptr ||
        (*pair)[1].AsText() == nullptr) {
      return Wrong("tojson: separators must be two texts");
    }
    style.item_separator = *(*pair)[0].AsText();
    style.key_separator = *(*pair)[1].AsText();
  }
  ASSIGN_OR_RETURN(std::string text, ToJson(value, style, with.budget));
  return Value::Text(std::move(text));
}

// ---- numbers

Result Integer(const Value& value, const Arguments& arguments, const Surroundings&) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"default"}));
  const Value standard = bound[0].value_or(Value::Of(int64_t{0}));
  int64_t integer = 0;
  double number = 0;
  if (value.AsInteger(&integer)) return Value::Of(integer);
  if (const std::string* text = value.AsText()) {
    std::string_view digits = Strip(*text, std::nullopt, true, true);
    if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
    const char* const end = digits.data() + digits.size();
    const auto whole = std::from_chars(digits.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) return Value::Of(integer);
    if (whole.ec == std::errc::result_out_of_range) return Wrong("int: beyond 64 bits");
    const auto read = std::from_chars(digits.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) return standard;
  } else if (!value.AsNumber(&number)) {
    return standard;
  }
  if (!std::isfinite(number)) return standard;
  if (std::abs(number) >= 0x1p63) return Wrong("int: beyond 64 bits");
  return Value::Of(static_cast<int64_t>(number));
}

Result Float(const Value& value, const Arguments& arguments, const Surroundings&) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"default"}));
  double number = 0;
  if (value.AsNumber(&number)) return Value::Of(number);
  if (const std::string* text = value.AsText()) {
    std::string_view digits = Strip(*text, std::nullopt, true, true);
    if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end) return Value::Of(number);
  }
  return bound[0].value_or(Value::Of(0.0));
}

Result Absolute(const Value& value, const Arguments& arguments, const Surroundings&) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  int64_t integer = 0;
  double number = 0;
  if (value.AsInteger(&integer)) return integer < 0 ? Negative(value) : Value::Of(integer);
  if (value.AsNumber(&number)) return Value::Of(std::abs(number));
  return Wrong(absl::StrCat("abs of a ", value.TypeName()));
}

// ---- items

Result Length(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  if (const std::string* text = value.AsText()) {
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(text->size() / 16)));
    return Value::Of(static_cast<int64_t>(CountCharacters(*text)));
  }
  if (value.AsItems() != nullptr) return Value::Of(static_cast<int64_t>(value.AsItems()->size()));
  if (value.AsDict() != nullptr) {
    return Value::Of(static_cast<int64_t>(value.AsDict()->entries().size()));
  }
  if (value.IsUndefined()) return Value::Of(int64_t{0});
  return Wrong(absl::StrCat("length of a ", value.TypeName()));
}

template <bool last>
Result Edge(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  if (items.empty()) return Value::MakeUndefined("there is no first or last item of nothing");
  return last ? items.back() : items.front();
}

Result ToList(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(value, with.budget));
  return Value::Of(std::move(items));
}

Result Items(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  if (value.IsUndefined()) return Value::Of(std::vector<Value>{});
  if (value.AsDict() == nullptr) return Wrong(absl::StrCat("items of a ", value.TypeName()));
  return CallMethod(value, "items", {}, with);
}

Result Join(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"d", "attribute"}));
  ASSIGN_OR_RETURN(const std::string separator, TextOr(bound[0], "", with.budget));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (bound[1]) {
      ASSIGN_OR_RETURN(item, Path(item, *bound[1], with.budget));
    }
    ASSIGN_OR_RETURN(const std::string text, ToText(item, with.budget));
    RETURN_IF_ERROR(with.budget.Take(static_cast<int64_t>(separator.size())));
    absl::StrAppend(&out, i == 0 ? "" : separator, text);
  }
  return Value::Text(std::move(out));
}

Result Reverse(const Value& value, const Arguments& arguments, const Surroundings& with) {
  RETURN_IF_ERROR(arguments.Bind({}).status());
  return Slice(value, Value(), Value(), Value::Of(int64_t{-1}), with.budget);
}

Result Default(const Value& value, const Arguments& arguments, const Surroundings&) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"default_value", "boolean"}));
  const bool replaced = value.IsUndefined() || (Truthy(bound[1], false) && !value.Truthy());
  return replaced ? bound[0].value_or(Value::Text("")) : value;
}

Result Map(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(value, with.budget));
  if (arguments.positional.empty()) {
    ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"attribute", "default"}));
    if (!bound[0]) return Wrong("map needs a filter or an attribute");
    for (Value& item : items) {
      ASSIGN_OR_RETURN(item, Path(item, *bound[0], with.budget));
      if (item.IsUndefined() && bound[1]) item = *bound[1];
    }
    return Value::Of(std::move(items));
  }
  const std::string* name = arguments.positional[0].AsText();
  if (name == nullptr || *name == "map") return Wrong("map needs the name of a filter");
  const Arguments rest = Without(arguments, 1);
  for (Value& item : items) {
    RETURN_IF_ERROR(with.budget.Take(1));
    ASSIGN_OR_RETURN(item, ApplyFilter(*name, item, rest, with));
  }
  return Value::Of(std::move(items));
}

// select, reject and, of attributes, selectattr, rejectattr.
template <bool of_attribute, bool wanted>
Result Choose(const Value& value, const Arguments& arguments, const Surroundings& with) {
  constexpr size_t kTest = of_attribute ? 1 : 0;
  const std::vector<Value>& given = arguments.positional;
  if (of_attribute && given.empty()) return Wrong("needs the name of an attribute");
  const bool tests = given.size() > kTest;
  if (tests && given[kTest].AsText() == nullptr) return Wrong("needs the name of a test");
  const Arguments rest = Without(arguments, std::min(given.size(), kTest + 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  std::vector<Value> chosen;
  for (const Value& item : items) {
    RETURN_IF_ERROR(with.budget.Take(1));
    Value tested = item;
    if (of_attribute) {
      ASSIGN_OR_RETURN(tested, Path(item, given[0], with.budget));
    }
    bool passes = tested.Truthy();
    if (tests) {
      ASSIGN_OR_RETURN(passes, ApplyTest(*given[kTest].AsText(), tested, rest, with));
    }
    if (passes == wanted) chosen.push_back(item);
  }
  return Value::Of(std::move(chosen));
}

// What sorting compares: text without regard to case, unless told otherwise.
Result SortKey(const Value& item, const std::optional<Value>& attribute, bool by_case,
               Budget& budget) {
  Value key = item;
  if (attribute && !attribute->IsNone()) {
    ASSIGN_OR_RETURN(key, Path(item, *attribute, budget));
  }
  if (by_case || key.AsText() == nullptr) return key;
  ASSIGN_OR_RETURN(std::string lower, ToCase(*key.AsText(), Case::kLower));
  return Value::Text(std::move(lower));
}

// Stable; the first error of a comparison ends it.
absl::Status SortByKeys(std::vector<std::pair<Value, Value>>& keyed, bool reverse, Budget& budget) {
  absl::Status status;
  const auto less = [&](const auto& a, const auto& b) {
    if (!status.ok()) return false;
    const absl::StatusOr<bool> is_less =
        reverse ? Less(b.first, a.first, budget) : Less(a.first, b.first, budget);
    status.Update(is_less.status());
    return is_less.ok() && *is_less;
  };
  std::stable_sort(keyed.begin(), keyed.end(), less);
  return status;
}

Result Sort(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, SortKey(item, bound[2], Truthy(bound[1], false), with.budget));
    keyed.emplace_back(std::move(key), item);
  }
  RETURN_IF_ERROR(SortByKeys(keyed, Truthy(bound[0], false), with.budget));
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return Value::Of(std::move(sorted));
}

Result SortDict(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"case_sensitive", "by", "reverse"}));
  ASSIGN_OR_RETURN(const std::string by, TextOr(bound[1], "key", with.budget));
  if (value.AsDict() == nullptr) return Wrong(absl::StrCat("dictsort of a ", value.TypeName()));
  if (by != "key" && by != "value") return Wrong("dictsort: by must be 'key' or 'value'");
  ASSIGN_OR_RETURN(Value items, CallMethod(value, "items", {}, with));
  Arguments sort;
  sort.keywords = {{"attribute", Value::Of(int64_t{by == "key" ? 0 : 1})},
                   {"case_sensitive", Value::Of(Truthy(bound[0], false))},
                   {"reverse", Value::Of(Truthy(bound[2], false))}};
  return Sort(items, sort, with);
}

Result Unique(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  std::vector<Value> keys, kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, SortKey(item, bound[1], Truthy(bound[0], false), with.budget));
    bool seen = false;
    for (size_t i = 0; i < keys.size() && !seen; ++i) {
      ASSIGN_OR_RETURN(seen, Equal(keys[i], key, with.budget));
    }
    if (seen) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::Of(std::move(kept));
}

Result Sum(const Value& value, const Arguments& arguments, const Surroundings& with) {
  ASSIGN_OR_RETURN(const Bound bound, arguments.Bind({"attribute", "start"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, with.budget));
  Value total = bound[1].value_or(Value::Of(int64_t{0}));
  for (const Value& item : items) {
    Value part = item;
    if (bound[0] && !bound[0]->IsNone()) {
      ASSIGN_OR_RETURN(part, Path(item, *bound[0], with.budget));
    }
    ASSIGN_OR_RETURN(total, Arithmetic("+", total, part, with.budget));
  }
  return total;
}

using Filter = Result (*)(const Value&, const Arguments&, const Surroundings&);
const std::map<std::string_view, Filter>& Filters() {
  static const auto* const kFilters = new std::map<std::string_view, Filter>{
      {"abs", Absolute},
      {"capitalize", ChangeCase<Case::kCapitalized>},
      {"count", Length},
      {"d", Default},
      {"default", Default},
      {"dictsort", SortDict},
      {"first", Edge<false>},
      {"float", Float},
      {"indent", Indent},
      {"int", Integer},
      {"items", Items},
      {"join", Join},
      {"last", Edge<true>},
      {"length", Length},
      {"list", ToList},
      {"lower", ChangeCase<Case::kLower>},
      {"map", Map},
      {"reject", Choose<false, false>},
      {"rejectattr", Choose<true, false>},
      {"replace", ReplaceIn},
      {"reverse", Reverse},
      {"safe", Same},
      {"select", Choose<false, true>},
      {"selectattr", Choose<true, true>},
      {"sort", Sort},
      {"string", String},
      {"sum", Sum},
      {"tojson", ToJsonText},
      {"trim", Trim},
      {"unique", Unique},
      {"upper", ChangeCase<Case::kUpper>},
  };
  return *kFilters;
}

}  // namespace

Result ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                   const Surroundings& with) {
  const auto found = Filters().find(name);
  if (found == Filters().end()) {
    return Wrong(
        absl::StrCat("the filter '", std::string(name), "' is unknown or not supported here"));
  }
  return found->second(value, arguments, with);
}

}  // namespace strata::data::jinja
