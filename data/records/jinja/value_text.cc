// Comparison and writing of values.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/text.h"
#include "data/records/jinja/value.h"

namespace strata::data::jinja {
namespace {

absl::StatusOr<bool> EqualItems(const std::vector<Value>& a, const std::vector<Value>& b,
                                Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(a[i], b[i], budget));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualEntries(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.Find(entry.first);
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool equal, Equal(entry.second, *other, budget));
    if (!equal) return false;
  }
  return true;
}

// Writes values; one of the two forms.
class Writer {
 public:
  Writer(const JsonStyle* json, Budget& budget) : json_(json), budget_(budget) {}

  absl::Status Write(const Value& value) {
    const size_t before = out_.size();
    const bool leaf = value.AsItems() == nullptr && value.AsDict() == nullptr;
    if (const std::string* text = value.AsText()) {
      RETURN_IF_ERROR(budget_.Take(static_cast<int64_t>(text->size())));
    }
    RETURN_IF_ERROR(ChargeContainer(value));
    RETURN_IF_ERROR(leaf                        ? WriteLeaf(value)
                    : value.AsDict() != nullptr ? WriteEntries(*value.AsDict())
                                                : WriteItems(value));
    return budget_.Take(leaf ? static_cast<int64_t>(out_.size() - before) + 1 : 1);
  }
  std::string Take() { return std::move(out_); }

 private:
  // What stands around its items.
  absl::Status ChargeContainer(const Value& value) {
    const size_t items = value.AsItems() != nullptr  ? value.AsItems()->size()
                         : value.AsDict() != nullptr ? value.AsDict()->entries().size()
                                                     : 0;
    size_t each = 4;
    if (json_ != nullptr) {
      each = json_->item_separator.size() + json_->key_separator.size() +
             static_cast<size_t>(level_ + 1) * json_->indent.size();
    }
    return budget_.Take(static_cast<int64_t>((items + 1) * (each + 1)));
  }

  absl::Status WriteLeaf(const Value& value) {
    int64_t integer = 0;
    double number = 0;
    if (const std::string* text = value.AsText()) {
      if (json_ != nullptr) {
        AppendJsonString(*text, json_->ascii, &out_);
      } else {
        out_ += Quoted(*text);
      }
    } else if (value.IsNone()) {
      out_ += json_ != nullptr ? "null" : "None";
    } else if (const bool* flag = value.AsBool()) {
      out_ += json_ != nullptr ? (*flag ? "true" : "false") : (*flag ? "True" : "False");
    } else if (value.IsFloat() && value.AsNumber(&number)) {
      out_ += FloatText(number);
    } else if (value.AsInteger(&integer)) {
      absl::StrAppend(&out_, integer);
    } else if (value.IsUndefined()) {
      if (json_ != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("tojson of what is not there: ", value.UndefinedReason()));
      }
      out_ += "Undefined";
    } else {
      return absl::InvalidArgumentError(absl::StrCat("cannot write a ", value.TypeName()));
    }
    return absl::OkStatus();
  }

  absl::Status WriteItems(const Value& value) {
    const std::vector<Value>& items = *value.AsItems();
    const bool round = json_ == nullptr && value.IsTuple();
    out_.push_back(round ? '(' : '[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      Separate(i == 0);
      RETURN_IF_ERROR(Write(items[i]));
    }
    Close(items.empty());
    if (round && items.size() == 1) out_.push_back(',');
    out_.push_back(round ? ')' : ']');
    return absl::OkStatus();
  }

  absl::Status WriteEntries(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (json_ != nullptr && json_->sort_keys) {
      // UTF-8 sorts as the characters do.
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_.push_back('{');
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      Separate(i == 0);
      RETURN_IF_ERROR(Write(Value::Text(entries[i]->first)));
      out_ += json_ != nullptr ? json_->key_separator : ": ";
      RETURN_IF_ERROR(Write(entries[i]->second));
    }
    Close(entries.empty());
    out_.push_back('}');
    return absl::OkStatus();
  }

  void Separate(bool first) {
    if (!first) out_ += json_ != nullptr ? json_->item_separator : ", ";
    Indent();
  }
  void Close(bool empty) {
    --level_;
    if (!empty) Indent();
  }
  void Indent() {
    if (json_ == nullptr || !json_->indented) return;
    out_.push_back('\n');
    for (int i = 0; i < level_; ++i) out_ += json_->indent;
  }

  const JsonStyle* json_;  // null: Python's repr()
  Budget& budget_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget) {
  RETURN_IF_ERROR(budget.Take(1));
  int64_t left = 0, right = 0;
  if (a.AsInteger(&left) && b.AsInteger(&right)) return left == right;
  double x = 0, y = 0;
  if (a.AsNumber(&x) && b.AsNumber(&y)) return x == y;
  if (a.AsText() != nullptr && b.AsText() != nullptr) {
    if (a.AsText()->size() != b.AsText()->size()) return false;
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(a.AsText()->size() / 16)));
    return *a.AsText() == *b.AsText();
  }
  if (a.AsItems() != nullptr && b.AsItems() != nullptr) {
    if (a.IsTuple() != b.IsTuple()) return false;
    return EqualItems(*a.AsItems(), *b.AsItems(), budget);
  }
  if (a.AsDict() != nullptr && b.AsDict() != nullptr) {
    return EqualEntries(*a.AsDict(), *b.AsDict(), budget);
  }
  if (a.AsNamespace() != nullptr) return a.AsNamespace() == b.AsNamespace();
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget) {
  RETURN_IF_ERROR(budget.Take(1));
  int64_t left = 0, right = 0;
  if (a.AsInteger(&left) && b.AsInteger(&right)) return left < right;
  double x = 0, y = 0;
  if (a.AsNumber(&x) && b.AsNumber(&y)) return x < y;
  if (a.AsText() != nullptr && b.AsText() != nullptr) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(a.AsText()->size() / 16)));
    return *a.AsText() < *b.AsText();
  }
  if (a.AsItems() != nullptr && b.AsItems() != nullptr && a.IsTuple() == b.IsTuple()) {
    const std::vector<Value>&left_items = *a.AsItems(), &right_items = *b.AsItems();
    for (size_t i = 0; i < std::min(left_items.size(), right_items.size()); ++i) {
      ASSIGN_OR_RETURN(const bool equal, Equal(left_items[i], right_items[i], budget));
      if (!equal) return Less(left_items[i], right_items[i], budget);
    }
    return left_items.size() < right_items.size();
  }
  const Value& missing = a.IsUndefined() ? a : b;
  if (missing.IsUndefined()) return absl::InvalidArgumentError(missing.UndefinedReason());
  return absl::InvalidArgumentError(
      absl::StrCat("a ", a.TypeName(), " and a ", b.TypeName(), " have no order"));
}

absl::StatusOr<std::string> ToText(const Value& value, Budget& budget) {
  if (const std::string* text = value.AsText()) {
    RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(text->size()) + 1));
    return *text;
  }
  if (value.IsUndefined()) return std::string();
  Writer writer(nullptr, budget);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

absl::StatusOr<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(&style, budget);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace strata::data::jinja
