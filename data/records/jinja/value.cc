#include "data/records/jinja/value.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::data::jinja {
namespace {

constexpr size_t kIndexedEntries = 16;  // dictionaries above this size are searched by hash

absl::Status CheckDepth(int depth) {
  if (depth <= Value::kMaxDepth) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a list or dictionary holds what is no plain data, or is more than ",
                   Value::kMaxDepth, " levels deep"));
}

}  // namespace

absl::Status Budget::Take(int64_t units) {
  if (units > left_) {
    left_ = 0;
    return absl::ResourceExhaustedError("takes too long or writes too much");
  }
  left_ -= units;
  return absl::OkStatus();
}

Value Value::Text(std::string text) {
  return Value(Data(std::make_shared<const std::string>(std::move(text))));
}

Value Value::MakeUndefined(std::string what) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(what))}));
}

absl::StatusOr<Value> Value::Of(std::vector<Value> items, bool tuple) {
  List list{std::move(items), tuple, 1};
  for (const Value& item : list.items) list.depth = std::max(list.depth, item.Depth() + 1);
  RETURN_IF_ERROR(CheckDepth(list.depth));
  return Value(Data(std::make_shared<const List>(std::move(list))));
}

absl::StatusOr<Value> Value::Of(Dict dict) {
  RETURN_IF_ERROR(CheckDepth(dict.depth()));
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

const std::vector<Value>* Value::AsItems() const {
  const List* list = Pointee<const List>();
  return list == nullptr ? nullptr : &list->items;
}

bool Value::IsTuple() const {
  const List* list = Pointee<const List>();
  return list != nullptr && list->tuple;
}

bool Value::AsInteger(int64_t* value) const {
  if (const int64_t* integer = std::get_if<int64_t>(&data_)) {
    *value = *integer;
  } else if (const bool* flag = AsBool()) {
    *value = *flag ? 1 : 0;
  } else {
    return false;
  }
  return true;
}

bool Value::AsNumber(double* value) const {
  if (const double* number = std::get_if<double>(&data_)) {
    *value = *number;
    return true;
  }
  int64_t integer = 0;
  if (!AsInteger(&integer)) return false;
  *value = static_cast<double>(integer);
  return true;
}

bool Value::Truthy() const {
  if (IsUndefined() || IsNone()) return false;
  double number = 0;
  if (AsNumber(&number)) return number != 0;
  if (const std::string* text = AsText()) return !text->empty();
  if (const std::vector<Value>* items = AsItems()) return !items->empty();
  if (const Dict* dict = AsDict()) return !dict->entries().empty();
  return true;
}

const char* Value::TypeName() const {
  static constexpr const char* kNames[] = {"Undefined", "NoneType", "bool",     "int",
                                           "float",     "str",      "list",     "dict",
                                           "function",  "loop",     "Namespace"};
  return IsTuple() ? "tuple" : kNames[data_.index()];
}

int Value::Depth() const {
  if (const List* list = Pointee<const List>()) return list->depth;
  if (const Dict* dict = AsDict()) return dict->depth();
  const bool plain = AsCallable() == nullptr && AsLoop() == nullptr && AsNamespace() == nullptr;
  return plain ? 0 : kMaxDepth + 1;
}

const Value* Dict::Find(std::string_view key) const {
  if (entries_.size() > kIndexedEntries) {
    const auto found = places_.find(absl::string_view(key.data(), key.size()));
    return found == places_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const Entry& entry : entries_) {
    if (entry.first == key) return &entry.second;
  }
  return nullptr;
}

void Dict::Set(std::string key, Value value) {
  depth_ = std::max(depth_, value.Depth() + 1);
  if (const Value* found = Find(key)) {
    *const_cast<Value*>(found) = std::move(value);  // this object's own
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kIndexedEntries) return;
  for (size_t i = places_.size(); i < entries_.size(); ++i) places_[entries_[i].first] = i;
}

}  // namespace strata::data::jinja
