#include "data/records/jinja/operators.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/builtins.h"
#include "data/records/jinja/text.h"

namespace strata::data::jinja {
namespace {

absl::Status NotDefined(const Value& a, const Value& b) {
  return absl::InvalidArgumentError(a.IsUndefined() ? a.UndefinedReason() : b.UndefinedReason());
}

absl::Status Unsupported(std::string_view name, const Value& a, const Value& b) {
  if (a.IsUndefined() || b.IsUndefined()) return NotDefined(a, b);
  return absl::InvalidArgumentError(absl::StrCat("'", std::string(name), "' does not take a ",
                                                 a.TypeName(), " and a ", b.TypeName()));
}

absl::Status TooLarge() {
  return absl::InvalidArgumentError("integers beyond 64 bits are not supported");
}

// Python's // and %: towards minus infinity, the sign of the divisor.
int64_t FloorDivide(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

absl::StatusOr<Value> Integers(std::string_view name, int64_t a, int64_t b) {
  int64_t result = 0;
  if (name == "+" || name == "-" || name == "*") {
    const bool overflows = name == "+"   ? __builtin_add_overflow(a, b, &result)
                           : name == "-" ? __builtin_sub_overflow(a, b, &result)
                                         : __builtin_mul_overflow(a, b, &result);
    if (overflows) return TooLarge();
    return Value::Of(result);
  }
  if (name == "**") {
    if (b < 0) return Value::Of(std::pow(static_cast<double>(a), static_cast<double>(b)));
    result = 1;
    for (int64_t i = 0; i < b; ++i) {
      if (a == 0 || a == 1) return Value::Of(a);
      if (a == -1) return Value::Of(b % 2 == 0 ? int64_t{1} : int64_t{-1});
      if (__builtin_mul_overflow(result, a, &result)) return TooLarge();
    }
    return Value::Of(result);
  }
  if (b == 0) return absl::InvalidArgumentError("division by zero");
  if (name == "/") return Value::Of(static_cast<double>(a) / static_cast<double>(b));
  if (a == INT64_MIN && b == -1) return TooLarge();
  const int64_t quotient = FloorDivide(a, b);
  return Value::Of(name == "//" ? quotient : a - quotient * b);
}

absl::StatusOr<Value> Floats(std::string_view name, double a, double b) {
  if (name == "+") return Value::Of(a + b);
  if (name == "-") return Value::Of(a - b);
  if (name == "*") return Value::Of(a * b);
  if (name == "**") return Value::Of(std::pow(a, b));
  if (b == 0) return absl::InvalidArgumentError("division by zero");
  if (name == "/") return Value::Of(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (name == "%") return Value::Of(rest == 0 ? std::copysign(0.0, b) : rest);
  return Value::Of(std::round((a - rest) / b));
}

absl::StatusOr<Value> Repeat(const Value& value, int64_t count, Budget& budget) {
  const int64_t times = std::max<int64_t>(count, 0);
  const size_t size =
      value.AsText() != nullptr ? value.AsText()->size() : value.AsItems()->size() * kItemBytes;
  int64_t total = 0;
  if (__builtin_mul_overflow(times, static_cast<int64_t>(size), &total)) total = INT64_MAX;
  RETURN_IF_ERROR(budget.Take(total));
  if (const std::string* text = value.AsText()) {
    std::string out;
    for (int64_t i = 0; i < times && size > 0; ++i) out += *text;
    return Value::Text(std::move(out));
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.AsItems()->begin(), value.AsItems()->end());
  }
  return Value::Of(std::move(items), value.IsTuple());
}

absl::StatusOr<Value> Append(const Value& a, const Value& b, Budget& budget) {
  if (a.AsText() != nullptr) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(a.AsText()->size() + b.AsText()->size())));
    return Value::Text(absl::StrCat(*a.AsText(), *b.AsText()));
  }
  std::vector<Value> items = *a.AsItems();
  items.insert(items.end(), b.AsItems()->begin(), b.AsItems()->end());
  RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(items.size()) * kItemBytes));
  return Value::Of(std::move(items), a.IsTuple());
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget) {
  if (const std::string* text = container.AsText()) {
    if (item.AsText() == nullptr) return Unsupported("in", item, container);
    const size_t worst = text->size() * (1 + item.AsText()->size() / 16);
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(worst)));
    return text->find(*item.AsText()) != std::string::npos;
  }
  if (const Dict* dict = container.AsDict()) {
    return item.AsText() != nullptr && dict->Find(*item.AsText()) != nullptr;
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(container, budget));
  for (const Value& candidate : items) {
    ASSIGN_OR_RETURN(const bool equal, Equal(candidate, item, budget));
    if (equal) return true;
  }
  return false;
}

Value LoopAttribute(const LoopState& loop, const std::string& name) {
  const int64_t length = static_cast<int64_t>(loop.items->size()), at = loop.index0;
  if (name == "index0") return Value::Of(at);
  if (name == "index") return Value::Of(at + 1);
  if (name == "revindex0") return Value::Of(length - at - 1);
  if (name == "revindex") return Value::Of(length - at);
  if (name == "first") return Value::Of(at == 0);
  if (name == "last") return Value::Of(at + 1 == length);
  if (name == "length") return Value::Of(length);
  if (name == "depth") return Value::Of(int64_t{1});
  if (name == "depth0") return Value::Of(int64_t{0});
  if (name == "previtem" && at > 0) return (*loop.items)[static_cast<size_t>(at - 1)];
  if (name == "nextitem" && at + 1 < length) return (*loop.items)[static_cast<size_t>(at + 1)];
  return Value::MakeUndefined(absl::StrCat("loop has no '", name, "' here"));
}

// Places of a slice as Python clamps them.
struct Bounds {
  int64_t begin, end, step;
};
absl::StatusOr<Bounds> Clamp(const Value& begin, const Value& end, const Value& step,
                             int64_t length) {
  Bounds bounds{0, 0, 1};
  const auto read = [](const Value& value, int64_t* out) -> absl::Status {
    if (value.AsInteger(out)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a slice of a ", value.TypeName(), " instead of an integer"));
  };
  if (!step.IsNone()) RETURN_IF_ERROR(read(step, &bounds.step));
  if (bounds.step == 0) return absl::InvalidArgumentError("a slice with step 0");
  const bool back = bounds.step < 0;
  const int64_t lowest = back ? -1 : 0, highest = back ? length - 1 : length;
  bounds.begin = back ? highest : lowest;
  bounds.end = back ? lowest : highest;
  const auto place = [&](const Value& value, int64_t* out) -> absl::Status {
    if (value.IsNone()) return absl::OkStatus();
    RETURN_IF_ERROR(read(value, out));
    *out = std::clamp(*out < 0 ? *out + length : *out, lowest, highest);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(place(begin, &bounds.begin));
  RETURN_IF_ERROR(place(end, &bounds.end));
  return bounds;
}

}  // namespace

absl::StatusOr<Value> Arithmetic(std::string_view name, const Value& a, const Value& b,
                                 Budget& budget) {
  int64_t left = 0, right = 0;
  const bool left_integer = a.AsInteger(&left), right_integer = b.AsInteger(&right);
  if (left_integer && right_integer) return Integers(name, left, right);
  double x = 0, y = 0;
  if (a.AsNumber(&x) && b.AsNumber(&y)) return Floats(name, x, y);
  if (name == "+") {
    const bool texts = a.AsText() != nullptr && b.AsText() != nullptr;
    const bool lists =
        a.AsItems() != nullptr && b.AsItems() != nullptr && a.IsTuple() == b.IsTuple();
    if (texts || lists) return Append(a, b, budget);
  }
  if (name == "*") {
    if (right_integer && (a.AsText() != nullptr || a.AsItems() != nullptr))
      return Repeat(a, right, budget);
    if (left_integer && (b.AsText() != nullptr || b.AsItems() != nullptr))
      return Repeat(b, left, budget);
  }
  return Unsupported(name, a, b);
}

absl::StatusOr<Value> Negative(const Value& value) {
  int64_t integer = 0;
  double number = 0;
  if (value.AsInteger(&integer)) return Integers("-", 0, integer);
  if (value.AsNumber(&number)) return Value::Of(-number);
  return Unsupported("-", value, value);
}

absl::StatusOr<bool> Compare(std::string_view name, const Value& a, const Value& b,
                             Budget& budget) {
  if (name == "in" || name == "not in") {
    ASSIGN_OR_RETURN(const bool contains, Contains(b, a, budget));
    return contains == (name == "in");
  }
  if (name == "==" || name == "!=") {
    ASSIGN_OR_RETURN(const bool equal, Equal(a, b, budget));
    return equal == (name == "==");
  }
  double x = 0, y = 0;
  if (a.AsNumber(&x) && b.AsNumber(&y) && (std::isnan(x) || std::isnan(y))) return false;
  if (name == "<") return Less(a, b, budget);
  if (name == ">") return Less(b, a, budget);
  ASSIGN_OR_RETURN(const bool beyond, name == "<=" ? Less(b, a, budget) : Less(a, b, budget));
  return !beyond;
}

absl::StatusOr<std::vector<Value>> Iterate(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (const std::vector<Value>* list = value.AsItems()) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(list->size()) * kItemBytes));
    return *list;
  }
  if (const Dict* dict = value.AsDict()) {
    for (const Dict::Entry& entry : dict->entries()) {
      RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(entry.first.size()) + 64));
      items.push_back(Value::Text(entry.first));
    }
  } else if (const std::string* text = value.AsText()) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(text->size()) * 64));
    for (const std::string_view character : Characters(*text)) {
      items.push_back(Value::Text(std::string(character)));
    }
  } else if (!value.IsUndefined()) {
    return absl::InvalidArgumentError(absl::StrCat("a ", value.TypeName(), " has no items"));
  }
  return items;
}

absl::StatusOr<Value> Attribute(const Value& value, const std::string& name) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.UndefinedReason());
  if (HasMethod(value, name)) {
    auto method = std::make_shared<Callable>();
    method->name = name;
    method->is_method = true;
    method->self = value;
    return Value::Of(std::shared_ptr<const Callable>(std::move(method)));
  }
  const Value* found = nullptr;
  if (const Dict* dict = value.AsDict()) found = dict->Find(name);
  if (const Namespace* names = value.AsNamespace()) found = names->variables.Find(name);
  if (found != nullptr) return *found;
  if (const LoopState* loop = value.AsLoop()) return LoopAttribute(*loop, name);
  return Value::MakeUndefined(absl::StrCat("a ", value.TypeName(), " has no '", name, "'"));
}

absl::StatusOr<Value> Item(const Value& value, const Value& index, Budget& budget) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.UndefinedReason());
  if (const std::string* key = index.AsText()) {
    const Dict* dict = value.AsDict();
    if (const Value* found = dict == nullptr ? nullptr : dict->Find(*key)) return *found;
    return Attribute(value, *key);
  }
  int64_t at = 0;
  if (index.AsInteger(&at)) {
    if (const std::vector<Value>* items = value.AsItems()) {
      const int64_t length = static_cast<int64_t>(items->size());
      if (at < 0) at += length;
      if (at >= 0 && at < length) return (*items)[static_cast<size_t>(at)];
    } else if (const std::string* text = value.AsText()) {
      RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(text->size())));
      const std::vector<std::string_view> characters = Characters(*text);
      const int64_t length = static_cast<int64_t>(characters.size());
      if (at < 0) at += length;
      if (at >= 0 && at < length)
        return Value::Text(std::string(characters[static_cast<size_t>(at)]));
    }
  }
  return Value::MakeUndefined(absl::StrCat("a ", value.TypeName(), " has no such item"));
}

absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end,
                            const Value& step, Budget& budget) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.UndefinedReason());
  const std::string* text = value.AsText();
  if (text == nullptr && value.AsItems() == nullptr) {
    return Value::MakeUndefined(absl::StrCat("a ", value.TypeName(), " cannot be sliced"));
  }
  std::vector<std::string_view> characters;
  if (text != nullptr) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(text->size())));
    characters = Characters(*text);
  }
  const size_t length = text != nullptr ? characters.size() : value.AsItems()->size();
  ASSIGN_OR_RETURN(const Bounds bounds, Clamp(begin, end, step, static_cast<int64_t>(length)));
  std::string out;
  std::vector<Value> items;
  int64_t at = bounds.begin;
  while (bounds.step > 0 ? at < bounds.end : at > bounds.end) {
    if (text != nullptr) {
      out += characters[static_cast<size_t>(at)];
    } else {
      RETURN_IF_ERROR(budget.Take(kItemBytes));
      items.push_back((*value.AsItems())[static_cast<size_t>(at)]);
    }
    if (__builtin_add_overflow(at, bounds.step, &at)) break;
  }
  if (text != nullptr) return Value::Text(std::move(out));
  return Value::Of(std::move(items), value.IsTuple());
}

absl::StatusOr<Value> Path(const Value& value, const Value& path, Budget& budget) {
  if (path.AsText() == nullptr) return Item(value, path, budget);
  Value at = value;
  for (const std::string_view part : Split(*path.AsText(), ".", -1, false)) {
    int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = read.ec == std::errc() && read.ptr == part.data() + part.size();
    const Value key = number ? Value::Of(index) : Value::Text(std::string(part));
    ASSIGN_OR_RETURN(at, Item(at, key, budget));
  }
  return at;
}

}  // namespace strata::data::jinja
