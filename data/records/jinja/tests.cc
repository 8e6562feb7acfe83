// Tests: value is name(arguments).
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/builtins.h"
#include "data/records/jinja/operators.h"

namespace strata::data::jinja {
namespace {

using Predicate = bool (*)(const Value&);

bool IsInteger(const Value& value) {
  int64_t integer = 0;
  return value.AsBool() == nullptr && value.AsInteger(&integer);
}
bool IsNumber(const Value& value) {
  double number = 0;
  return value.AsNumber(&number);
}
bool IsSequence(const Value& value) {
  return value.AsText() != nullptr || value.AsItems() != nullptr || value.AsDict() != nullptr ||
         value.IsUndefined();
}
bool IsTrue(const Value& value) { return value.AsBool() != nullptr && *value.AsBool(); }
bool IsFalse(const Value& value) { return value.AsBool() != nullptr && !*value.AsBool(); }

const std::map<std::string_view, Predicate>& Predicates() {
  static const auto* const kPredicates = new std::map<std::string_view, Predicate>{
      {"boolean", [](const Value& v) { return v.AsBool() != nullptr; }},
      {"callable", [](const Value& v) { return v.AsCallable() != nullptr; }},
      {"defined", [](const Value& v) { return !v.IsUndefined(); }},
      {"false", IsFalse},
      {"float", [](const Value& v) { return v.IsFloat(); }},
      {"integer", IsInteger},
      {"iterable", IsSequence},
      {"mapping", [](const Value& v) { return v.AsDict() != nullptr; }},
      {"none", [](const Value& v) { return v.IsNone(); }},
      {"number", IsNumber},
      {"sequence", IsSequence},
      {"string", [](const Value& v) { return v.AsText() != nullptr; }},
      {"true", IsTrue},
      {"undefined", [](const Value& v) { return v.IsUndefined(); }},
  };
  return *kPredicates;
}

// Tests that compare: their names, and the operator that says the same.
std::string_view OperatorOf(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
      {"==", "=="},         {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},
      {"ne", "!="},         {"<", "<"},   {"lt", "<"},       {"lessthan", "<"},
      {"<=", "<="},         {"le", "<="}, {">", ">"},        {"gt", ">"},
      {"greaterthan", ">"}, {">=", ">="}, {"ge", ">="},      {"in", "in"},
  };
  for (const auto& [test, text] : kOperators) {
    if (test == name) return text;
  }
  return "";
}

absl::StatusOr<bool> Divides(const Value& value, int64_t divisor, int64_t rest, Budget& budget) {
  ASSIGN_OR_RETURN(const Value left, Arithmetic("%", value, Value::Of(divisor), budget));
  return Equal(left, Value::Of(rest), budget);
}

// `is sameas`: of what has one object per value.
absl::StatusOr<bool> Same(const Value& a, const Value& b, Budget& budget) {
  const auto single = [](const Value& v) { return v.IsNone() || v.AsBool() != nullptr; };
  if (single(a) != single(b)) return false;
  if (!single(a)) {
    return absl::InvalidArgumentError("'sameas' is supported for none, true and false only");
  }
  if (a.IsNone() != b.IsNone()) return false;
  return Equal(a, b, budget);
}

}  // namespace

absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& value,
                               const Arguments& arguments, const Surroundings& with) {
  const auto predicate = Predicates().find(name);
  if (predicate != Predicates().end()) {
    RETURN_IF_ERROR(arguments.Bind({}).status());
    return predicate->second(value);
  }
  if (name == "odd" || name == "even") {
    RETURN_IF_ERROR(arguments.Bind({}).status());
    return Divides(value, 2, name == "odd" ? 1 : 0, with.budget);
  }
  const std::string_view comparison = OperatorOf(name);
  if (comparison.empty() && name != "divisibleby" && name != "sameas") {
    return absl::InvalidArgumentError(
        absl::StrCat("the test '", std::string(name), "' is unknown or not supported here"));
  }
  ASSIGN_OR_RETURN(const auto bound, arguments.Bind({"other"}));
  if (!bound[0]) return absl::InvalidArgumentError("the test needs something to compare with");
  if (!comparison.empty()) return Compare(comparison, value, *bound[0], with.budget);
  if (name == "sameas") return Same(value, *bound[0], with.budget);
  int64_t divisor = 0;
  if (!bound[0]->AsInteger(&divisor)) {
    return absl::InvalidArgumentError("'divisibleby' needs an integer");
  }
  return Divides(value, divisor, 0, with.budget);
}

}  // namespace strata::data::jinja
